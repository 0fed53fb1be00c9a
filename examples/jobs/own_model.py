"""A program with a model of its own: `fleetctl launch examples/jobs/own_model.yml`.

It runs on every phone; `fit` finds the plan of the run, and trains all copies as one.
"""

from torch import nn

from trainer import fit, load_data

digits = load_data("digits")
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, digits.classes))
accuracy = fit(model, digits, nn.CrossEntropyLoss(label_smoothing=0.05))
print(f"test accuracy {accuracy:.2%}")

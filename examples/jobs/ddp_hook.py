"""A DDP program whose gradients take our exchange: fleetctl launch examples/jobs/ddp_hook.yml"""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from trainer import ddp_hook, load_data

distributed.init_process_group("gloo")
digits = load_data("digits")
images, labels = (torch.from_numpy(each[:]) for each in (digits.train.images, digits.train.labels))
train = TensorDataset(images, labels)
batches = DataLoader(train, batch_size=16, sampler=DistributedSampler(train))
model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(64, 99), nn.Linear(99, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with ddp_hook() as hook:
    model.register_comm_hook(None, hook)
    for _ in range(5):
        for images, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
answers = model(torch.from_numpy(digits.test.images[:])).argmax(1).numpy()
print(f"test accuracy {(answers == digits.test.labels[:]).mean():.2%}")
distributed.barrier()

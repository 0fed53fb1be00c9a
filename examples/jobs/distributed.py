"""A torch.distributed program that knows nothing of phones.

On the rack, from this folder: fleetctl launch --phones 4 -- python distributed.py
"""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
torch.manual_seed(distributed.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(100):
    samples = torch.rand(64, 8)
    loss = nn.functional.mse_loss(model(samples), samples.square().sum(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"rank {distributed.get_rank()} of {distributed.get_world_size()}: loss {loss.item():.4f}")
distributed.barrier()

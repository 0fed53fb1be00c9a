"""One rank of test_hook: DDP trains the same model with and without our hook."""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from trainer import ddp_hook

distributed.init_process_group("gloo")
rank = distributed.get_rank()


def trained(hook=None) -> list[torch.Tensor]:
    torch.manual_seed(0)
    layers = [nn.Linear(20, 3000), nn.ReLU(), nn.Linear(3000, 100), nn.ReLU(), nn.Linear(100, 3)]
    # So small that the gradients fill several buckets.
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.2)
    if hook:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        samples = torch.rand(16, 20, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(samples), samples[:, :3].argmax(1)).backward()
        optimizer.step()
    return list(model.parameters())


expected = trained()
with ddp_hook() as hook:
    result = trained(hook)
for ours, theirs in zip(result, expected, strict=True):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
print(f"rank {rank}: equal")
distributed.barrier()

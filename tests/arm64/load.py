"""Loads the native library, given by its path, and prints what its functions answer."""

import ctypes
import platform
import sys

library = ctypes.CDLL(sys.argv[1])
name, names = ctypes.create_string_buffer(65), ctypes.create_string_buffer(6 * 65)
assert library.gethostname(name, len(name)) == 0
assert library.uname(names) == 0
fields = [names[start : start + 65].split(b"\0")[0].decode() for start in range(0, 6 * 65, 65)]
assert library.gethostname(name, 3) == -1, "a name that does not fit must be refused"
print(platform.machine(), name.value.decode(), fields[1], fields[4])

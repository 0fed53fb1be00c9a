"""adb's daemon as a stand-in phone has it; the real `adb` speaks to it, over TCP for USB."""

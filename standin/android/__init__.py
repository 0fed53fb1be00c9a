"""Android as a stand-in phone shows it: state that lasts, system services, apps, screen, adb."""

export SVDIR=/data/data/com.termux/files/usr/var/service LOGDIR=/data/data/com.termux/files/usr/var/log
service-daemon start >/dev/null 2>&1

"""Looks for the processes of a test in a container."""

PROBE = """
import os, sys
marker, number, words, but = sys.argv[1:]
pids = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        status = os.stat(f"/proc/{pid}")
    except OSError:
        continue
    pids.setdefault((status.st_uid, status.st_gid), []).append(pid)
for user, group in pids:
    if os.fork():
        os.wait()
        continue
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    for pid in pids[user, group]:
        try:
            environment = open(f"/proc/{pid}/environ", "rb").read().split(b"\\0")
            command = open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"TEST_MARKER={marker}".encode() in environment and words in command and not (but and but in command):
            if int(number):
                os.kill(int(pid), int(number))
            print(pid, command.replace("\\n", " "))
    break
"""
"""Runs on a node: those that carry the mark, signalled on request.

In a container not even root may look at the environment of others: each user's processes are asked as that user.
"""

#!/usr/bin/python3
# What a harness's program and a command would do to meet at a socket with a name. As `claude` it is such a program: each message is
# the words of one of these, run in the harness room, and what it printed is the answer.
#   tries DIR    each way to a socket in DIR: its name and OK or the errno
#   plain DIR    what must work in DIR all the same
#   wait PATH    listens there and hands a descriptor to who comes     meet PATH   takes one and prints what is in it
import errno, json, os, shutil, socket, stat, subprocess, sys, time

def word(attempt):
    try:
        attempt()
        return 'OK'
    except OSError as e:
        return errno.errorcode[e.errno]

def bind(path, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    return s

def gone(*paths):
    for p in paths:
        shutil.rmtree(p) if os.path.isdir(p) else os.path.lexists(p) and os.unlink(p)

def tries(folder):
    to = folder + '/s'
    ways = {'stream': lambda: bind(to), 'dgram': lambda: bind(to, socket.SOCK_DGRAM), 'seqpacket': lambda: bind(to, socket.SOCK_SEQPACKET),
            'mknod': lambda: os.mknod(to, stat.S_IFSOCK | 0o600), 'proc': lambda: bind('/proc/self/root' + to)}
    for own in ('/tmp', os.environ['HOME'], '/dev/shm'):
        def placed(move, own=own, made=own + '/apart'):
            gone(made)
            os.mkdir(made)
            bind(made + '/s')
            move(made)
        ways[f'rename {own}'] = lambda p=placed: p(lambda made: os.rename(made + '/s', to))
        ways[f'link {own}'] = lambda p=placed: p(lambda made: os.link(made + '/s', to))
        ways[f'folder {own}'] = lambda p=placed: p(lambda made: os.rename(made, to))
        ways[f'own {own}'] = lambda p=placed: p(lambda made: None)
    for name, way in ways.items():
        gone(to)
        print(f'{name}: {word(way)}')
    gone(to)

def plain(folder):
    a, b = folder + '/a', folder + '/b'
    gone(a, b)
    for d in (a, b, a + '/d'):
        os.mkdir(d)
    for f in ('x', 'y', 'd/z'):
        open(f'{a}/{f}', 'w').close()
    os.rename(a + '/x', b + '/x')
    os.link(a + '/y', b + '/y')
    os.rename(a + '/d', b + '/d')
    os.mkfifo(b + '/fifo')
    gone(a, b)
    print('OK')

def wait(path):
    gone(path)
    s = bind(path)
    s.listen()
    s.settimeout(30)
    fd = os.memfd_create('passed')
    os.write(fd, f'passed by {os.getuid()}'.encode())
    socket.send_fds(s.accept()[0], [b'x'], [fd])
    print('handed over')

def meet(path):
    end = time.monotonic() + 30
    s = socket.socket(socket.AF_UNIX)
    while word(lambda: s.connect(path)) != 'OK':
        if time.monotonic() > end:
            sys.exit('nobody there')
        time.sleep(0.05)
    [fd] = socket.recv_fds(s, 1, 1)[1]
    print(os.pread(fd, 100, 0).decode())

def say(**line):
    print(json.dumps(line), flush=True)

def be_claude():
    say(type='system', subtype='init', session_id='meet')
    for line in sys.stdin:
        told = json.loads(line)
        if told['type'] != 'user':
            continue
        say(type='user', isReplay=True, message=told['message'])
        words = told['message']['content'].split()
        done = subprocess.run(['/usr/bin/python3', __file__, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        say(type='assistant', message={'content': [{'type': 'text', 'text': done.stdout}]})
        say(type='result', subtype='success', is_error=False, result='', usage={})

if os.path.basename(__file__) == 'claude' and sys.argv[1].startswith('-'):
    be_claude()
else:
    {'tries': tries, 'plain': plain, 'wait': wait, 'meet': meet}[sys.argv[1]](sys.argv[2])

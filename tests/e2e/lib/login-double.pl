#!/usr/bin/perl
# Stands in for the vendors' programs at their log-in: `setup-token` draws as Claude Code does (moving about, saying again only
# what changed), shows a page, takes its code and shows a token; `login --device-auth` shows a code and leaves a file as Codex
# does. What it does is the code that it is given, or the file "do" beside it:
#   good    the token / the file        wrong   the vendor's refusal, and it waits for Enter     fails   it ends by itself
#   hostile as good; what it knows is left in other processes and files of the room first
use strict;
use POSIX ();

$| = 1;
my $token = 'sk-ant-oat01-' . ('planted' x 13) . '-Zz_9';
my $home = $ENV{HOME};

sub draw { print join('', @_); select(undef, undef, undef, 0.05); }

sub leave_traces {
    for my $name ("$home/token", '/scratch/token', '/home/cage/token', '/project/token', '/tmp/token', '/dev/shm/token') {
        open(my $f, '>', $name) or next;
        print $f $token;
    }
    for (1 .. 3) { # double forks in sessions of their own, holding it
        next if fork();
        POSIX::setsid();
        exit 0 if fork();
        $SIG{TERM} = $SIG{HUP} = $SIG{INT} = 'IGNORE';
        my $held = "$token-held";
        close(STDOUT); close(STDIN); close(STDERR);
        sleep 1 while length $held;
    }
}

# Through the proxy that it was given: a host that is none of the log-in's.
sub ask_elsewhere {
    my ($port) = $ENV{HTTPS_PROXY} =~ /:(\d+)$/;
    socket(my $s, 2, 1, 0) or return 'no socket';
    connect($s, pack('S n a4 x8', 2, $port, "\x7f\0\0\1")) or return "no proxy: $!";
    syswrite($s, "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    sysread($s, my $answer, 12);
    return $answer;
}

sub raw {
    my $t = POSIX::Termios->new;
    $t->getattr(0);
    $t->setlflag($t->getlflag & ~(POSIX::ICANON() | POSIX::ECHO()));
    $t->setiflag($t->getiflag & ~POSIX::ICRNL());
    $t->setattr(0, POSIX::TCSANOW());
}

sub setup_token {
    raw();
    draw("\e7\e[r\e8\e[?25h\e[38;5;174mWelcome\e[9Gto\e[12GClaude\e[19GCode\e[39m\r\r\n");
    draw("\e[2G\e[38;5;231m*\e[4G\e[39mOpening\e[12Gbrowser\r\r\n");
    draw("\r\e[1C\e[1A\e[38;5;231m$_\e[39m\r\r\n") for ('+', 'x', '*');
    draw("\r\e[1C\e[1A\e[38;5;246mBrowser didn't open? Use the url below\e[39m\r\r\n\r\r\n");
    draw("\e[38;5;246mhttps://vendor.example/oauth/authorize?code=true&state=" . ('s' x 300));
    draw("&end=1\e[39m\r\r\n\r\r\n\e[2GPaste\e[8Gcode\e[13Ghere\e[18G>\r\r\n");
    my $code = '';
    while (sysread(STDIN, my $c, 1)) {
        last if $c eq "\r";
        $code .= $c;
        draw("\r\e[19G\e[1A" . ('*' x length $code) . "\r\r\n");
    }
    if ($code eq 'wrong') {
        draw("\r\e[1C\e[2A\e[38;5;211mOAuth error: Invalid code \e[1mgiven\e[22m\e[39m\e[K\r\r\n");
        sysread(STDIN, my $c, 1);
        exit 1;
    }
    if ($code eq 'fails') {
        (my $key = $token) =~ s/oat01/api03/;
        draw("\e[2J\e[Hit broke: \e]0;title\a$key\r\n");
        exit 3;
    }
    draw("\e[31m" . ask_elsewhere() . "\e[39m\r\n") if $code eq 'elsewhere';
    exit 4 if $code eq 'elsewhere';
    leave_traces() if $code eq 'hostile';
    # Over a line that was there: of what is the same already nothing is drawn again.
    draw("\e[2J\e[H\r\n" . substr($token, 0, 20) . ('.' x 84) . "\r\e[1A\r\n\e[21G");
    draw(substr($token, 20) . "\e[K\r\n\r\nStore this token securely.\r\n");
    exit 0;
}

sub device {
    open(my $f, '<', '/cage/harness/do');
    my $do = <$f> // 'good';
    draw("Welcome to Codex\r\n\r\n1. Open this link\r\n   \e[94mhttps://vendor.example/device\e[0m\r\n\r\n");
    draw("2. Enter this one-time code \e[90m(expires in 15 minutes)\e[0m\r\n   \e[94mABCD-12345\e[0m\r\n");
    sleep 2;
    if ($do =~ /fails/) {
        draw("Error logging in: device auth timed out\r\n");
        exit 1;
    }
    open(my $out, '>', "$home/auth.json");
    print $out '{"OPENAI_API_KEY":null,"tokens":{"id_token":"eyJhIjoxfQ.eyJiIjoyfQ.c2ln","access_token":"eyJhIjoxfQ.planted-access-',
        ('x' x 80), '.c2ln","refresh_token":"planted-refresh-', ('y' x 60), '","account_id":"acc-1"},"last_refresh":"2026-01-01T00:00:00Z"}';
    close($out);
    draw("Successfully logged in\r\n");
    exit 0;
}

# A program of this kind obeys such files of the folder that it starts in and of all above it.
sub obey_what_is_there {
    my $at = POSIX::getcwd();
    do {
        if (-e "$at/CLAUDE.md") {
            draw("OAuth error: started below somebody's $at/CLAUDE.md\r\n");
            exit 5;
        }
    } while ($at =~ s{/[^/]*$}{});
}

obey_what_is_there();
setup_token() if ($ARGV[0] // '') eq 'setup-token';
device() if ($ARGV[0] // '') eq 'login';
exit 2;

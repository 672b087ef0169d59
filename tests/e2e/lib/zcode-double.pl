#!/usr/bin/perl
# Stands in for zcode: `zcode --prompt TEXT` asks its model once, over the address and with the credential of its environment, runs the
# command that the answer names in a shell, and prints both. By zcode's description alone.
use strict;

die "usage: zcode --prompt TEXT\n" if @ARGV != 2 || $ARGV[0] ne '--prompt';
my ($port) = ($ENV{ANTHROPIC_BASE_URL} // '') =~ m{^http://127\.0\.0\.1:(\d+)$} or die "no base URL\n";
my $credential = $ENV{ANTHROPIC_API_KEY} ? "x-api-key: $ENV{ANTHROPIC_API_KEY}" : "authorization: Bearer $ENV{ANTHROPIC_AUTH_TOKEN}";
(my $text = $ARGV[1]) =~ s/(["\\])/\\$1/g;
my $body = qq({"model":"glm","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"$text"}]});
my $s;
socket($s, 2, 1, 0) && connect($s, pack('S n a4 x8', 2, $port, "\x7f\0\0\1")) or die "no gateway: $!\n";
syswrite($s, "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n$credential\r\n"
    . 'content-length: ' . length($body) . "\r\n\r\n$body");
my $answer = '';
1 while sysread($s, $answer, 65536, length $answer);
die "its model answered: " . substr($answer, 0, 12) . "\n" unless $answer =~ m{^HTTP/1\.1 200};
my $said = join '', $answer =~ /"text_delta","text":"([^"]*)"/g;
print "$said\n";
print "ran: ", `/bin/sh -c '$1'`, "\n" if $said =~ /RUN \[([^\]']*)\]/;
print "bad bytes \xff\xfe\n{\"a\":1}\n";

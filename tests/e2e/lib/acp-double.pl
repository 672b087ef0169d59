#!/usr/bin/perl
# A program that speaks the Agent Client Protocol and does what it is told: a prompt is a JSON array of steps.
#   {"say": TEXT}  {"tool": COMMAND, "answer": TEXT}: tells of one, and runs nothing  {"run": COMMAND}: runs one, and tells nothing
#   {"ask": TITLE, "yes": TEXT, "no": TEXT, "command": COMMAND}, or with its own "options": then it says what was chosen, and after a yes runs the command, if any
#   {"wait": 1}: until it is cancelled
use strict;
use JSON::PP;
use Encode ();

# What it does for a prompt that is none.
my @usual = (
    { tool => 'git log --oneline -3', answer => "4c1e9d2 parse: spans take days\n90ab113 tests: spans" },
    { tool => 'make test', answer => "57 tests, 1 failed: span_of_days" },
    { say => "One of **57 tests** fails: `span_of_days` expects *8d* where the code now says `8d 0h`.\n\n"
        . "```c\nif (days >= 8)\n    snprintf(out, SPAN_MAX, \"%ud\", days);\n```\n\nI can change either:\n\n"
        . "1. the test, if hours matter beyond a week\n2. the code, as above\n" });

$| = 1;
my $json = JSON::PP->new->utf8->canonical;
my $number = 0;

sub send_line { print $json->encode({ jsonrpc => '2.0', %{$_[0]} }), "\n"; }
sub hear { my $line = <STDIN>; exit 0 unless defined $line; return $json->decode($line); }
sub update { send_line({ method => 'session/update', params => { sessionId => 's', update => $_[0] } }); }
sub say_text { update({ sessionUpdate => 'agent_message_chunk', content => { type => 'text', text => $_[0] } }); }

# Tells of a command, around what it does in truth.
sub tool {
    my ($command, $answer, $does) = @_;
    my $id = 'call' . ++$number;
    update({ sessionUpdate => 'tool_call', toolCallId => $id, title => $command, kind => 'execute', status => 'in_progress',
        rawInput => { command => $command } });
    $does->();
    update({ sessionUpdate => 'tool_call_update', toolCallId => $id, status => 'completed',
        content => [ { type => 'content', content => { type => 'text', text => $answer // '' } } ] });
}

sub run { system('/bin/sh', '-c', $_[0]); }

sub ask_person {
    my ($step) = @_;
    my ($id, $command) = ('ask' . ++$number, $step->{command});
    send_line({ id => $id, method => 'session/request_permission', params => { sessionId => 's',
        toolCall => { toolCallId => $id, title => $step->{ask}, $command ? (kind => 'execute', rawInput => { command => $command }) : (kind => 'edit') },
        options => $step->{options} // [ { optionId => 'y', name => $step->{yes} // 'Allow', kind => 'allow_once' },
            { optionId => 'n', name => $step->{no} // 'Reject', kind => 'reject_once' } ] } });
    while (1) {
        my $m = hear();
        next unless ($m->{id} // '') eq $id && $m->{result};
        my $chosen = $m->{result}{outcome}{optionId} // 'nothing';
        say_text("chosen: $chosen");
        tool($command, '', sub { run($command) }) if $command && $chosen eq 'y';
        return;
    }
}

sub until_cancelled { while (1) { return if (hear()->{method} // '') eq 'session/cancel'; } }

while (1) {
    my $m = hear();
    my $method = $m->{method} // '';
    if ($method eq 'initialize') {
        send_line({ id => $m->{id}, result => { protocolVersion => 1, agentCapabilities => {}, authMethods => [] } });
    } elsif ($method eq 'session/new') {
        send_line({ id => $m->{id}, result => { sessionId => 's' } });
    } elsif ($method eq 'session/prompt') {
        my $reason = 'end_turn';
        my $steps = eval { $json->decode(Encode::encode_utf8($m->{params}{prompt}[0]{text})) };
        for my $step (@{ $steps || \@usual }) {
            say_text($step->{say}) if defined $step->{say};
            tool($step->{tool}, $step->{answer}, sub {}) if defined $step->{tool};
            run($step->{run}) if defined $step->{run};
            ask_person($step) if defined $step->{ask};
            if ($step->{wait}) { until_cancelled(); $reason = 'cancelled'; }
        }
        send_line({ id => $m->{id}, result => { stopReason => $reason } });
    } elsif (defined $m->{id} && $method) {
        send_line({ id => $m->{id}, error => { code => -32601, message => 'no such method' } });
    }
}

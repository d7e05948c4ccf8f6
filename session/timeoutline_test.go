package session

import (
	"bytes"
	"math"
	"testing"
	"time"
)

const (
	revocableNode = "/locks/a/_c_9f1c0a52-7c39-810e-9a3c-d2b1c5a7e9f0-lock-0000000007"
	plainNode     = "/locks/a/_c_9f1c0a52-7c39-800e-9a3c-d2b1c5a7e9f0-lock-0000000007"
	curatorsNode  = "/locks/a/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000007"
)

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestTheTimeoutIsReadAsItIsWritten(t *testing.T) {
	for _, c := range []struct {
		user    []byte
		timeout time.Duration
		data    string
	}{
		{nil, 30 * time.Second, "zkgrant-timeout 30000ms\n"},
		{[]byte{}, 30 * time.Second, "\nzkgrant-timeout 30000ms\n"},
		{[]byte("job 17"), 4 * time.Second, "job 17\nzkgrant-timeout 4000ms\n"},
		{[]byte("a\nb\n"), time.Millisecond, "a\nb\n\nzkgrant-timeout 1ms\n"},
		{[]byte("a\x00\xff"), time.Second, "a\x00\xff\nzkgrant-timeout 1000ms\n"},
		{[]byte("zkgrant-timeout 5ms\n"), time.Second, "zkgrant-timeout 5ms\n\nzkgrant-timeout 1000ms\n"},
		{nil, math.MaxInt32 * time.Millisecond, "zkgrant-timeout 2147483647ms\n"},
	} {
		data := withTimeout(c.user, c.timeout)
		if string(data) != c.data || len(data) > len(c.user)+TimeoutSize {
			t.Errorf("%q with %v is written as %q, want %q", c.user, c.timeout, data, c.data)
		}
		if user, timeout := splitTimeout(data); !same(user, c.user) || timeout != c.timeout {
			t.Errorf("%q is read as %q, %v; want %q, %v", data, user, timeout, c.user, c.timeout)
		}
		for node, want := range map[string][]byte{revocableNode: c.user, plainNode: data, curatorsNode: data, "task": data} {
			if got := UserData(node, data); !same(got, want) {
				t.Errorf("of %s %q is shown, want %q", node, got, want)
			}
			asked := within(3 * time.Second).data(data)
			if got := UserData(node, asked); !same(got, want) {
				t.Errorf("of %s, which is asked for, %q is shown, want %q", node, got, want)
			}
			named := c.timeout
			if node != revocableNode {
				named = 0
			}
			if _, rest := read(asked); timeoutIn(node, rest) != named {
				t.Errorf("%s, which is asked for, names %v, want %v", node, timeoutIn(node, rest), named)
			}
		}
	}
}

func TestDataWithoutATimeoutAreTheUsers(t *testing.T) {
	for _, data := range [][]byte{
		nil, {}, []byte("job 17"), []byte("\n"), []byte("zkgrant-timeout"), []byte("zkgrant-timeout \n"), []byte("zkgrant-timeout ms\n"),
		[]byte("zkgrant-timeout 5ms"), []byte("zkgrant-timeout 5\n"), []byte("zkgrant-timeout 5s\n"), []byte("zkgrant-timeout -5ms\n"),
		[]byte("zkgrant-timeout +5ms\n"), []byte("zkgrant-timeout 05ms\n"), []byte("zkgrant-timeout -0ms\n"),
		[]byte("zkgrant-timeout 2147483648ms\n"), []byte("zkgrant-timeout 5ms\nmore"), []byte("zkgrant-timeout 5ms\n\n"),
		[]byte("job 17zkgrant-timeout 5ms\n"), []byte("job 17\n zkgrant-timeout 5ms\n"), []byte("job 17\nzkgrant-timeout  5ms\n"),
	} {
		if user, timeout := splitTimeout(data); !same(user, data) || timeout != 0 {
			t.Errorf("%q is read as %q, %v; want all of it, and no timeout", data, user, timeout)
		}
	}
}

// TestTheDataThatAreShownCannotReachTheLine behind them, which a second reader may still look at.
func TestTheDataThatAreShownCannotReachTheLine(t *testing.T) {
	data := withTimeout([]byte("job"), time.Second)
	user, _ := splitTimeout(data)
	_ = append(user, "xxxxxx"...)
	if _, timeout := splitTimeout(data); timeout != time.Second {
		t.Errorf("after an append to what is shown the node says %q, want its timeout as it was", data)
	}
}

func FuzzTimeoutLine(f *testing.F) {
	for _, seed := range []string{"", "\n", "job", "__REVOKE__", "__REVOKE__ 5\njob", "zkgrant-timeout 5ms\n", "\nzkgrant-timeout 0ms\n", "a\nzkgrant-timeout 30000ms\n"} {
		f.Add([]byte(seed), int32(30000), true)
		f.Add([]byte(seed), int32(0), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, millis int32, stored bool) {
		millis = max(millis, 0)
		if !stored && len(data) == 0 {
			data = nil
		}
		before, timeout := bytes.Clone(data), time.Duration(millis)*time.Millisecond
		line := withTimeout(data, timeout)
		if user, got := splitTimeout(line); !same(user, data) || got != timeout {
			t.Errorf("%q with %v is read as %q, %v", data, timeout, user, got)
		}
		wished := within(time.Second).data(line)
		if user := UserData(revocableNode, wished); !same(user, data) {
			t.Errorf("%q under a wish is shown as %q, want %q", wished, user, data)
		}
		if user, got := splitTimeout(data); got > 0 && !bytes.Equal(withTimeout(user, got), data) || got == 0 && len(user) > len(data) {
			t.Errorf("%q is read as %q, %v, which is not written like that", data, user, got)
		}
		if !bytes.Equal(before, data) {
			t.Errorf("%q was changed to %q", before, data)
		}
	})
}

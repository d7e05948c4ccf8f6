package session

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseConnectString(t *testing.T) {
	for _, c := range []struct {
		in     string
		hosts  string // comma separated
		chroot string
	}{
		{"h", "h:2181", ""},
		{"h:2182", "h:2182", ""},
		{"h1:1,h2:65535", "h1:1,h2:65535", ""},
		{"h1,h2,h3", "h1:2181,h2:2181,h3:2181", ""},
		{"  h1:2181 ,\th2:2182 , h3\n", "h1:2181,h2:2182,h3:2181", ""},
		{"h/", "h:2181", ""},
		{"h/app", "h:2181", "/app"},
		{"h1:2181,h2:2182/a/b/c", "h1:2181,h2:2182", "/a/b/c"},
		{"h1,h2 /a b", "h1:2181,h2:2181", "/a b"},
		{"h/app ", "h:2181", "/app"},
		{"h/..a/.b/c.", "h:2181", "/..a/.b/c."},
		{"h/ä:1", "h:2181", "/ä:1"},
		{"127.0.0.1", "127.0.0.1:2181", ""},
		{"127.0.0.1:2182/x", "127.0.0.1:2182", "/x"},
		{"[::1]", "[::1]:2181", ""},
		{"[::1]:2182", "[::1]:2182", ""},
		{"[0:0::1]:2182/x", "[::1]:2182", "/x"},
		{"[fe80::1%eth0]", "[fe80::1%eth0]:2181", ""},
		{"h1:2181,h2,[::1]:2181/chroot/path", "h1:2181,h2:2181,[::1]:2181", "/chroot/path"},
		{"h,h:2181,H,h:2182", "h:2181,h:2182", ""},
		{"[::1],[0::1]:2181", "[::1]:2181", ""},
		{"zk_1.my-net.example.com.", "zk_1.my-net.example.com.:2181", ""},
		{"h:02181", "h:2181", ""},
	} {
		got, err := ParseConnectString(c.in)
		want := Servers{Hosts: strings.Split(c.hosts, ","), Chroot: c.chroot}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseConnectString(%q) = %+v, %v; want %+v", c.in, got, err, want)
		}
	}
}

func TestParseConnectStringRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{"", "no host"},
		{"  \t", "no host"},
		{"/app", "no host"},
		{" /app", "no host"},
		{",", `host 1 ""`},
		{"h1,,h2", "host 2"},
		{"h1,", "host 2"},
		{",h1", "host 1"},
		{"h:", `port ""`},
		{"h:0", `port "0"`},
		{"h:65536", "65536"},
		{"h:-1", `"-1"`},
		{"h:+1", `"+1"`},
		{"h:2181x", `"2181x"`},
		{"h: 2181", `" 2181"`},
		{":2181", "empty host name"},
		{"h h:2181", `' '`},
		{"zk://h:2181", "has a scheme"},
		{"user@h", `'@'`},
		{"::1", "brackets"},
		{"::1:2181", "brackets"},
		{"[::1", "not closed"},
		{"[::1]2181", "after the bracket"},
		{"[::1]:", `port ""`},
		{"[127.0.0.1]:2181", "IPv6"},
		{"[h]:2181", "IPv6"},
		{"[]", "IPv6"},
		{"[::1%a b]", "IPv6"},
		{"h]:1", `']'`},
		{"a..b", "part of the host name"},
		{".", "part of the host name"},
		{strings.Repeat("a", 64), "longer than 63"},
		{strings.Repeat("a.", 127) + "b", "more than 253"},
		{"h:2181/app,h2:2181", "after the last host"},
		{"h1/a,h2/a", "after the last host"},
	} {
		got, err := ParseConnectString(c.in)
		if !errors.Is(err, ErrConnectString) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("ParseConnectString(%q) = %+v, %v; want an ErrConnectString that says %q", c.in, got, err, c.says)
		}
	}
	for _, in := range []string{"h//", "h//a", "h/a/", "h/a//b", "h/.", "h/a/..", "h/\x00", "h/\xff"} {
		if _, err := ParseConnectString(in); !errors.Is(err, ErrConnectString) || !errors.Is(err, ErrPath) {
			t.Errorf("ParseConnectString(%q): %v; want ErrConnectString and ErrPath", in, err)
		}
	}
}

func TestValidatePath(t *testing.T) {
	for _, path := range []string{
		"/", "/a", "/a/b", "/zookeeper/quota", "/...", "/.a", "/a.", "/..a", "/a..b", "/a/.../b", "/ ", "/a b", "/a,b", "/%", "/ü", "/日本",
		"/\u007e", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/_c_0123-lock-0000000001",
	} {
		if err := ValidatePath(path); err != nil {
			t.Errorf("ValidatePath(%q): %v", path, err)
		}
	}
	for _, c := range []struct{ path, says string }{
		{"", "empty"},
		{"a", "start with a slash"},
		{"a/b", "start with a slash"},
		{" /a", "start with a slash"},
		{"//", "ends with a slash"},
		{"/a/", "ends with a slash"},
		{"//a", "empty component at byte 1"},
		{"/a//b", "empty component at byte 3"},
		{"/.", `relative component "." at byte 1`},
		{"/..", `relative component ".." at byte 1`},
		{"/a/./b", `relative component "." at byte 3`},
		{"/a/../b", `relative component ".." at byte 3`},
		{"/a/b/..", `relative component ".." at byte 5`},
		{"/\x00", "U+0000 at byte 1"},
		{"/a\x01", "U+0001 at byte 2"},
		{"/\x1f", "U+001F"},
		{"/\x7f", "U+007F"},
		{"/\u0080", "U+0080"},
		{"/\u009f", "U+009F"},
		{"/\ue000", "U+E000"},
		{"/\uf8ff", "U+F8FF"},
		{"/\ufff0", "U+FFF0"},
		{"/\ufffd", "U+FFFD"},
		{"/\uffff", "U+FFFF"},
		{"/\U00010000", "U+10000"},
		{"/\U0001F512", "U+1F512"},
		{"/\xff", "U+FFFD"},
		{"/\xed\xa0\x80", "U+FFFD"}, // a surrogate in UTF-8
	} {
		if err := ValidatePath(c.path); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("ValidatePath(%q): %v; want an ErrPath that says %q", c.path, err, c.says)
		}
	}
}

func FuzzParseConnectString(f *testing.F) {
	for _, s := range []string{"h", "h1:1,h2/a/b", "[::1]:1,[fe80::1%eth0]", " a , b:2 /c", "h/..", "[::", ":,", "h:2181/app,h2:2181"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseConnectString(s)
		if err != nil {
			if !errors.Is(err, ErrConnectString) {
				t.Fatalf("%q: %v is no ErrConnectString", s, err)
			}
			return
		}
		again, err := ParseConnectString(got.String())
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("%q is %+v, written %q, read again %+v, %v", s, got, got, again, err)
		}
		if len(got.Hosts) == 0 {
			t.Fatalf("%q accepted without a host", s)
		}
		if got.Chroot != "" && ValidatePath(got.Chroot) != nil {
			t.Fatalf("%q accepted with chroot %q", s, got.Chroot)
		}
	})
}

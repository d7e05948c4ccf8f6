package session

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
)

// ErrConnectString is wrapped by every error of [ParseConnectString].
var ErrConnectString = Sentinel("zkgrant: malformed connect string", ErrInvalid)

// ErrPath is wrapped by every error of [ValidatePath].
var ErrPath = Sentinel("zkgrant: malformed path", ErrInvalid)

// Servers is a parsed connect string: the addresses of the ensemble and the chroot.
type Servers struct {
	// Hosts holds the addresses as "host:port", IPv6 literals in brackets, in the order
	// given and without duplicates. It has at least one entry.
	Hosts []string
	// Chroot is the path that all other paths are relative to, without a trailing slash.
	// It is empty for the root.
	Chroot string
}

// String returns s as a connect string that parses to s again.
func (s Servers) String() string {
	return strings.Join(s.Hosts, ",") + s.Chroot
}

// ParseConnectString parses a connect string in ZooKeeper's own form,
// "host1:2181,host2,[::1]:2181/chroot/path".
//
// The port defaults to 2181. IPv6 literals are in brackets. White space around commas and
// at both ends is ignored, and so are duplicate addresses. The chroot comes once, after
// the last host, and must pass [ValidatePath]; "/" alone means no chroot. A comma in the
// chroot is refused, because "h1/app,h2/app" would otherwise silently mean a single host.
//
// Every error wraps [ErrConnectString], and [ErrPath] if the chroot is invalid, and says
// which entry is wrong and why. Host names are not resolved.
func ParseConnectString(s string) (Servers, error) {
	if strings.Contains(s, "://") {
		return Servers{},
			fmt.Errorf("%w: %q has a scheme; write host1:2181,host2:2181/chroot", ErrConnectString, s)
	}
	list, chroot := strings.TrimSpace(s), ""
	if i := strings.IndexByte(list, '/'); i >= 0 {
		list, chroot = list[:i], list[i:]
	}
	if strings.TrimSpace(list) == "" {
		return Servers{}, fmt.Errorf("%w: no host in %q", ErrConnectString, s)
	}
	if strings.Contains(chroot, ",") {
		return Servers{}, fmt.Errorf("%w: chroot %q: it may appear only once, after the last host",
			ErrConnectString, chroot)
	}
	switch chroot {
	case "", "/":
		chroot = ""
	default:
		if err := ValidatePath(chroot); err != nil {
			return Servers{}, fmt.Errorf("%w: chroot: %w", ErrConnectString, err)
		}
	}
	var hosts []string
	for i, entry := range strings.Split(list, ",") {
		host, err := parseHost(strings.TrimSpace(entry))
		if err != nil {
			return Servers{}, fmt.Errorf("%w: host %d %q: %w", ErrConnectString, i+1, entry, err)
		}
		if !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
			hosts = append(hosts, host)
		}
	}
	return Servers{Hosts: hosts, Chroot: chroot}, nil
}

// parseHost returns an entry of the host list in the form "host:port".
func parseHost(entry string) (string, error) {
	var host, port string
	var hasPort bool
	if rest, bracketed := strings.CutPrefix(entry, "["); bracketed {
		literal, tail, closed := strings.Cut(rest, "]")
		if !closed {
			return "", errors.New("bracket not closed")
		}
		addr, err := netip.ParseAddr(literal)
		if err != nil || !addr.Is6() || strings.IndexFunc(addr.Zone(), isForeign) >= 0 {
			return "", fmt.Errorf("%q is not an IPv6 address", literal)
		}
		host = addr.String()
		if tail != "" {
			if port, hasPort = strings.CutPrefix(tail, ":"); !hasPort {
				return "", fmt.Errorf("unexpected %q after the bracket", tail)
			}
		}
	} else {
		if strings.Count(entry, ":") > 1 {
			return "", errors.New("more than one colon: put an IPv6 address in brackets")
		}
		host, port, hasPort = strings.Cut(entry, ":")
		if err := checkHostName(host); err != nil {
			return "", err
		}
	}
	number := zk.DefaultPort
	if hasPort {
		var err error
		if number, err = parsePort(port); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// parsePort parses a decimal TCP port. Unlike strconv.Atoi, it accepts no sign.
func parsePort(port string) (int, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is not in 1..65535", port)
	}
	return int(n), nil
}

// isForeign reports whether r cannot be in a host name, or in the zone of an IPv6
// address, which is the name of an interface. Underscores are not legal in host names,
// but are common in container networks, and resolvers accept them.
func isForeign(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
		!strings.ContainsRune("-_.", r)
}

// checkHostName accepts DNS names and IPv4 literals.
func checkHostName(name string) error {
	if name == "" {
		return errors.New("empty host name")
	}
	if len(name) > 253 {
		return fmt.Errorf("host name has %d characters, more than 253", len(name))
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 {
			return errors.New("a part of the host name is empty or longer than 63 characters")
		}
	}
	if i := strings.IndexFunc(name, isForeign); i >= 0 {
		r, _ := utf8.DecodeRuneInString(name[i:])
		return fmt.Errorf("character %q in a host name", r)
	}
	return nil
}

// ValidatePath checks a path by ZooKeeper's rules: it must be absolute, without a
// trailing slash except for "/" itself, without empty, "." or ".." components, and
// without the characters that servers refuse (NUL, control characters, surrogates and
// private use U+D800 to U+F8FF, U+FFF0 to U+FFFF). Servers use UTF-16, where everything
// above U+FFFF is a pair of surrogates, so that is refused, too, as is invalid UTF-8. The
// error wraps [ErrPath] and says what is wrong and where.
func ValidatePath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: empty", ErrPath)
	case path[0] != '/':
		return fmt.Errorf("%w: %q does not start with a slash", ErrPath, clip(path))
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return fmt.Errorf("%w: %q ends with a slash", ErrPath, clip(path))
	}
	at := 1
	for component := range strings.SplitSeq(path[1:], "/") {
		switch component {
		case "":
			return fmt.Errorf("%w: %q: empty component at byte %d", ErrPath, clip(path), at)
		case ".", "..":
			return fmt.Errorf("%w: %q: relative component %q at byte %d",
				ErrPath, clip(path), clip(component), at)
		}
		at += len(component) + 1
	}
	for i, r := range path {
		if isForbidden(r) {
			return fmt.Errorf("%w: %q: character %U at byte %d", ErrPath, clip(path), r, i)
		}
	}
	return nil
}

// ValidateNew checks the components of a valid path at which a node is to be created.
// None may be the name of a contender, because in the directory above, which may be
// another lock's, it would count as one. If lock is set, none may be the name of a lock's
// record either. The error wraps [ErrPath] and names the component.
func ValidateNew(path string, lock bool) error {
	for component := range strings.SplitSeq(path, "/") {
		if _, contends := events.ParseName(component); contends {
			return fmt.Errorf("%w: in %q, %q is the name of a contender; %s",
				ErrPath, clip(path), clip(component), escaping)
		}
		if lock && strings.HasSuffix(component, RecordSuffix) {
			return fmt.Errorf("%w: in %q, %q is the name of a lock's record; %s",
				ErrPath, clip(path), clip(component), escaping)
		}
	}
	return nil
}

// escaping is the advice for a component that may come from a user.
const escaping = "make a component of user input with coordinator.PathEscape"

// clip shortens a path for an error text, because a path may be as long as a request.
func clip(path string) string {
	const most = 200
	if len(path) <= most {
		return path
	}
	return path[:most] + "..."
}

// isForbidden reports whether ZooKeeper refuses r in a path. Ranging over a string turns
// invalid UTF-8 into U+FFFD, which is in the last range.
func isForbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

package coordinator

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"

	"github.com/zkgrant/zkgrant/session"
)

const (
	// longestComponent is the maximum length, in bytes, of what PathEscape returns.
	longestComponent = 200
	// emptyText is the component for the empty text. No other component has a percent
	// sign without two hexadecimal digits, except one with a hash.
	emptyText = "%"
	// hashed precedes the hash in the component of a long text.
	hashed = "%~"
)

// PathEscape returns a path component of 1 to 200 bytes for any text, such as user input.
// Different texts yield different components, and none has a special meaning to a lock or
// to ZooKeeper. A long text yields a prefix and a hash.
func PathEscape(text string) string {
	c := url.PathEscape(text)
	switch {
	case c == "":
		return emptyText
	case isReserved(c):
		last := len(c) - 1
		c = fmt.Sprintf("%s%%%02X", c[:last], c[last])
	}
	if len(c) <= longestComponent {
		return c
	}
	hash := fmt.Sprintf("%s%x~", hashed, sha256.Sum256([]byte(text)))
	c = c[:longestComponent-len(hash)]
	if cut := strings.LastIndexByte(c, '%'); cut > len(c)-len("%XX") {
		c = c[:cut]
	}
	return c + hash
}

// PathUnescape is the inverse of [PathEscape]. It fails with [ErrPath] for any other
// component, and for one with a hash.
func PathUnescape(component string) (string, error) {
	if component == emptyText {
		return "", nil
	}
	text, err := url.PathUnescape(component)
	if err != nil || len(component) > longestComponent || PathEscape(text) != component {
		return "", fmt.Errorf("%w: %.200q is not from PathEscape, or has a hash", ErrPath, component)
	}
	return text, nil
}

// isReserved reports whether an escaped text may have a special meaning in some
// directory. All such texts end in an unescaped byte.
func isReserved(c string) bool {
	switch c {
	case ".", "..", "zookeeper":
		return true
	default:
		return strings.HasSuffix(c, session.RecordSuffix) || session.InnerOf("/"+c) != "" || isNumbered(c)
	}
}

// isNumbered reports whether the name ends as if a server had numbered it ("%010d"): it
// may be a contender's, of any library.
func isNumbered(name string) bool {
	const digits = 10
	if len(name) < digits {
		return false
	}
	number := strings.TrimPrefix(name[len(name)-digits:], "-")
	return strings.Trim(number, "0123456789") == ""
}

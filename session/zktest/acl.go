package zktest

import (
	"crypto/sha1"
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
)

// The permission bits of an access list.
const (
	permRead int32 = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
	permAll = permRead | permWrite | permCreate | permDelete | permAdmin
)

// identity is an identity that an access list can name.
type identity struct {
	scheme, id string
}

// acl is one entry of an access list.
type acl struct {
	perms int32
	identity
}

func openACL() []acl {
	return []acl{{perms: permAll, identity: identity{"world", "anyone"}}}
}

// caller is the origin of a request: the session that will own the nodes it creates, and
// the identities that it has proven. A trusted caller is the test itself, and passes
// every access list.
type caller struct {
	session int64
	ids     []identity
	trusted bool
}

// may reports whether list grants the caller at least one of the permissions.
func (c caller) may(list []acl, perm int32) bool {
	if c.trusted || len(list) == 0 {
		return true
	}
	for _, a := range list {
		if a.perms&perm == 0 {
			continue
		}
		if a.identity == (identity{"world", "anyone"}) {
			return true
		}
		if slices.ContainsFunc(c.ids, a.matches) {
			return true
		}
	}
	return false
}

// matches reports whether the entry applies to the identity.
func (a acl) matches(who identity) bool {
	if a.scheme != who.scheme {
		return false
	}
	if a.scheme != "ip" {
		return a.id == who.id
	}
	prefix, valid := parseIP(a.id)
	if !valid {
		return false
	}
	addr, err := netip.ParseAddr(who.id)
	return err == nil && prefix.Contains(addr.Unmap())
}

// parseIP parses the id of the ip scheme: an address with an optional number of leading
// bits.
func parseIP(id string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(id); err == nil {
		return prefix.Masked(), true
	}
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// resolve checks an access list sent by a client, and replaces its "auth" entries by the
// identities that the client has proven. An ip address is known without proof, and does
// not count as one. The result shares no memory with list.
func (c caller) resolve(list []acl) ([]acl, Code) {
	out := make([]acl, 0, len(list))
	for i, a := range list {
		if slices.Contains(list[:i], a) {
			continue
		}
		if a.identity == (identity{"world", "anyone"}) {
			out = append(out, acl{a.perms, identity{"world", "anyone"}})
			continue
		}
		valid := false
		switch a.scheme {
		case "auth":
			for _, id := range c.ids {
				if id.scheme == "digest" || id.scheme == "sasl" {
					out = append(out, acl{a.perms, id})
					valid = true
				}
			}
			if valid {
				continue
			}
		case "digest":
			user, hash, found := strings.Cut(a.id, ":")
			valid = found && user != "" && hash != "" && !strings.Contains(hash, ":")
		case "ip":
			_, valid = parseIP(a.id)
		case "sasl":
			valid = a.id != ""
		}
		if !valid {
			return nil, InvalidACL
		}
		out = append(out, acl{a.perms, identity{strings.Clone(a.scheme), strings.Clone(a.id)}})
	}
	if len(out) == 0 {
		return nil, InvalidACL
	}
	return out, ok
}

// digest returns the identity proven by the credentials "user:password". ZooKeeper
// defines the hash.
func digest(credentials []byte) identity {
	user, _, _ := strings.Cut(string(credentials), ":")
	sum := sha1.Sum(credentials)
	return identity{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// proven is digest for use by a server. ok is false if the runtime does not allow SHA-1,
// whose use then panics (GODEBUG=fips140=only).
func proven(credentials []byte) (who identity, ok bool) {
	defer func() { ok = recover() == nil }()
	return digest(credentials), true
}

// masked returns list without password hashes. A client that may read the node but not
// administer it sees the list that way.
func masked(list []acl) []acl {
	out := slices.Clone(list)
	for i, a := range out {
		if a.scheme == "digest" {
			user, _, _ := strings.Cut(a.id, ":")
			out[i].id = user + ":x"
		}
	}
	return out
}

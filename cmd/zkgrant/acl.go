package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
)

// The named access lists.
const (
	aclWorld   = "world"
	aclCreator = "creator"
)

// parseACL parses an access list in the format of ZooKeeper's setAcl command:
// scheme:id:perms,… An id may contain colons and commas, as a certificate's subject does.
func parseACL(list string) (acl []zk.ACL, err error) {
	switch list {
	case aclWorld:
		return zk.WorldACL(zk.PermAll), nil
	case aclCreator:
		return zk.AuthACL(zk.PermAll), nil
	}
	rest := ""
	for part := range strings.SplitSeq(list, ",") {
		rest += part
		if one, ok := entry(rest); ok {
			acl, rest = append(acl, one), ""
		} else {
			rest += "," // the comma belongs to the id
		}
	}
	if rest != "" {
		return nil, fmt.Errorf("%s: must be world, creator, or scheme:id:perms,... with perms made of c, d, r, w and a", strings.TrimSuffix(rest, ","))
	}
	return acl, nil
}

// entry parses one entry of an access list.
func entry(text string) (one zk.ACL, ok bool) {
	scheme, rest, _ := strings.Cut(text, ":")
	last := strings.LastIndexByte(rest, ':')
	if scheme == "" || strings.Contains(scheme, ",") || last < 0 || last == len(rest)-1 {
		return one, false
	}
	one.Scheme, one.ID = scheme, rest[:last]
	permissions := map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}
	for _, letter := range rest[last+1:] {
		one.Perms |= permissions[letter]
		if permissions[letter] == 0 {
			return one, false
		}
	}
	return one, true
}

// access returns the option for the access list of the nodes that zkgrant creates.
func (s *settings) access() ([]coordinator.Option, error) {
	if s.acl == "" {
		return nil, nil
	}
	acl, err := parseACL(s.acl)
	if err != nil {
		return nil, fmt.Errorf("--acl %w", err)
	}
	if s.acl == aclCreator && !s.identified() {
		return nil, errors.New("--acl creator needs an identity: give --auth-file, --sasl-file or --tls-cert")
	}
	return []coordinator.Option{coordinator.WithACL(acl)}, nil
}

// identified reports whether this client authenticates to the servers.
func (s *settings) identified() bool { return s.authFile != "" || s.saslFile != "" || s.tls.cert != "" }

// warnOfOpenNodes warns that authenticating does not by itself protect a holder's nodes.
func (s *settings) warnOfOpenNodes() {
	if s.acl == "" && s.identified() {
		s.say(report{Event: "warned", Error: "no access list", loud: true},
			"every client may delete the lock's nodes: protect them with --acl creator or another list, or allow it with --acl world")
	}
}

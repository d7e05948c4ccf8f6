package main

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/doctor"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// reader reads nodes with their Stats, which a coordinator does not offer.
type reader interface {
	Inspect(ctx context.Context, nodes []string, how session.Inspection) ([]session.Inspected, error)
	Look(ctx context.Context, node string) ([]session.Found, error)
}

// atOnce is how many nodes are inspected in one batch.
const atOnce = 64

// lookBelow inspects root and everything below it. It calls found for each node with
// contenders as soon as it sees one.
func lookBelow(ctx context.Context, r reader, chroot, root string, found func(doctor.Node)) (*doctor.Tree, error) {
	const systemTree = "/zookeeper"
	t := &tree{Tree: doctor.Tree{Root: root}, chroot: chroot, records: map[string]session.Found{}}
	looked := 0
	for ahead := []string{root}; len(ahead) > 0; {
		first := max(0, len(ahead)-atOnce)
		paths := ahead[first:]
		seen, err := r.Inspect(ctx, paths, session.Inspection{Wanted: isPart})
		if err != nil {
			return nil, err
		}
		var below []string
		before := len(t.Nodes)
		for i, node := range seen {
			for _, child := range t.take(paths[i], node) {
				if chroot+child != systemTree {
					below = append(below, child)
				}
			}
		}
		ahead = append(ahead[:first], below...)
		for _, n := range t.Nodes[before:] {
			found(n)
		}
		looked += len(paths)
		session.ReportProgress(ctx, session.Progress{Nodes: looked})
	}
	if err := t.judgeDirectories(ctx, r); err != nil {
		return nil, err
	}
	if root != "/" { // a lock's crash record is its sibling
		at := root + session.RecordSuffix
		found, err := r.Look(ctx, at)
		switch {
		case errors.Is(err, session.ErrNoAuth):
			t.Nodes = append(t.Nodes, doctor.Node{Path: at, Refusal: err.Error()})
		case err != nil:
			return nil, err
		case len(found) > 0:
			t.records[at] = found[0]
		}
	}
	slices.SortFunc(t.Nodes, func(a, b doctor.Node) int { return strings.Compare(a.Path, b.Path) })
	return &t.Tree, t.judgeRecords(ctx, r)
}

// tree collects what was seen so far.
type tree struct {
	doctor.Tree

	chroot  string
	records map[string]session.Found // by path
}

// isPart reports whether a name is that of a part of a lock: a contender, a permit or a
// crash record.
func isPart(name string) bool {
	_, contends := events.ParseName(name)
	return contends || session.IsPermit(name) || strings.HasSuffix(name, session.RecordSuffix)
}

// take adds what was seen at a node, and returns the children that may be locks.
func (t *tree) take(at string, seen session.Inspected) (below []string) {
	for _, name := range seen.Rest {
		below = append(below, path.Join(at, name))
	}
	if seen.Err != nil {
		t.Nodes = append(t.Nodes, doctor.Node{Path: at, Refusal: seen.Err.Error()})
		return below
	}
	if seen.Stat == nil { // the node is gone
		return nil
	}
	if t.Looked++; session.Ephemeral(seen.Stat) { // it may be an unfair lock
		t.Own(seen.Stat.EphemeralOwner, t.chroot+at)
		return nil
	}
	now := time.Now()
	n := doctor.Node{
		Path: at, Others: seen.Rest, Next: doctor.NextSequence(seen.Stat.Cversion, seen.Stat.NumChildren),
	}
	for _, f := range seen.Found {
		if strings.HasSuffix(f.Name, session.RecordSuffix) {
			t.records[path.Join(at, f.Name)] = f
			continue
		}
		if session.Ephemeral(f.Stat) {
			t.Own(f.Stat.EphemeralOwner, t.chroot+path.Join(at, f.Name))
		} else {
			n.Persistent = append(n.Persistent, f.Name)
		}
		if !session.IsPermit(f.Name) {
			n.Contenders = append(n.Contenders, f.Name)
			t.Ahead = max(t.Ahead, time.UnixMilli(f.Stat.Ctime).Sub(now))
		}
	}
	if len(n.Contenders)+len(n.Persistent) > 0 {
		t.Nodes = append(t.Nodes, n)
	}
	return below
}

// judgeDirectories finds out which directories zkgrant has created.
func (t *tree) judgeDirectories(ctx context.Context, r reader) error {
	var errs []error
	for chunk := range slices.Chunk(t.Nodes, atOnce) {
		type answer struct {
			found []session.Found
			err   error
		}
		for i, a := range each(chunk, func(n doctor.Node) (a answer) {
			if n.Refusal == "" {
				a.found, a.err = r.Look(ctx, n.Path)
			}
			return a
		}) {
			errs = append(errs, a.err)
			chunk[i].Ours = len(a.found) > 0 && recipes.ParseDirectoryData(a.found[0].Data).Ours
		}
	}
	return errors.Join(errs...)
}

// judgeRecords finds the records whose holder is gone. A release removes the node and the
// record in one transaction. So if the node is gone and the record has not changed, the
// holder has crashed.
func (t *tree) judgeRecords(ctx context.Context, r reader) error {
	for _, at := range slices.Sorted(maps.Keys(t.records)) {
		f := t.records[at]
		holder, since, ok := session.ParseRecord(f.Data)
		if !ok { // another program's node
			continue
		}
		record := doctor.Record{Path: strings.TrimSuffix(at, session.RecordSuffix), Holder: holder, Since: since}
		stands, err := r.Look(ctx, path.Join(record.Path, holder))
		if err != nil && !errors.Is(err, session.ErrNoAuth) { // a node that we may not read exists
			return err
		}
		if err == nil && len(stands) == 0 {
			still, err := r.Look(ctx, at)
			if err != nil {
				return err
			}
			record.Gone = len(still) > 0 && still[0].Stat.Mzxid == f.Stat.Mzxid
		}
		t.Records = append(t.Records, record)
	}
	return nil
}

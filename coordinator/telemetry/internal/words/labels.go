package words

import (
	"strings"
	"unicode/utf8"
)

const (
	// DefaultMost is how many children of one parent have their own labels by default.
	DefaultMost = 50
	// Rest is the label of every lock without a label of its own.
	Rest = "*"

	manyParents = 10  // the limit of all labels, as a multiple of one parent's limit
	fewLabels   = 100 // the minimum of that limit
	longest     = 256 // bytes of a label
)

// Labels gives locks their labels, and bounds their number. A path has its own label
// until its parent has too many children: then one label replaces those of all its
// children, for good.
type Labels struct {
	most  int
	keeps bool // counts keep their labels, so replaced labels still use up the limit

	parents map[string]map[string]bool // the children of each parent; nil once one label represents them
	named   map[string]bool            // labels chosen by a user's function
	count   int                        // labels in use, without Rest
}

// NewLabels returns labels for at most most children of one parent. keeps says that
// counts keep their labels when these are replaced.
func NewLabels(most int, keeps bool) *Labels {
	return &Labels{most: most, keeps: keeps, parents: map[string]map[string]bool{}, named: map[string]bool{}}
}

// total bounds the labels of all parents together.
func (l *Labels) total() int { return max(fewLabels, manyParents*l.most) }

// Parents returns how many parents are remembered.
func (l *Labels) Parents() int { return len(l.parents) }

// Of returns the label of a path, and the labels that it replaces from now on.
func (l *Labels) Of(path string) (label string, replaced []string) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 || !fits(path) {
		return Rest, nil
	}
	parent, child := path[:at], path[at+1:]
	children, seen := l.parents[parent]
	full, room := l.count >= l.total(), len(children) < l.most
	switch {
	case seen && children == nil:
		return parent + "/" + Rest, nil
	case children[child]:
		return path, nil
	case full && (room || !seen || !l.keeps):
		return Rest, nil
	case room:
		if !seen {
			children = map[string]bool{}
			l.parents[parent] = children
		}
		children[child] = true
		l.count++
		return path, nil
	}
	l.parents[parent] = nil
	switch {
	case !l.keeps:
		for other := range children {
			replaced = append(replaced, parent+"/"+other)
		}
		l.count += 1 - len(children)
	case !seen: // none of its children has a label
		l.count++
	}
	return parent + "/" + Rest, replaced
}

// Given returns a label that a user's function has chosen, or Rest if there are too many.
func (l *Labels) Given(label string) string {
	switch {
	case l.named[label]:
		return label
	case len(l.named) >= l.total() || !fits(label):
		return Rest
	}
	l.named[label] = true
	return label
}

// fits reports whether a text can be a label: Prometheus refuses a whole scrape if one
// label is not UTF-8.
func fits(text string) bool { return len(text) <= longest && utf8.ValidString(text) }

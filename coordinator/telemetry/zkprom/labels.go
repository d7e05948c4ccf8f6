package zkprom

import (
	"strings"
	"unicode/utf8"
)

const (
	defaultMost = 50
	manyParents = 10 // the limit of all labels, in times the limit of one parent
	fewLabels   = 100
	longest     = 256 // bytes of a label
	others      = "*" // the label of every lock that has none of its own
	anyChild    = "/" + others
)

// labels give locks their labels, and bound how many there are. A path has its own label until its parent has too many children: then
// one label replaces those of all its children, for good.
type labels struct {
	most    int
	parents map[string]map[string]bool // the children of each parent; nil once one label stands for them
	named   map[string]bool            // the labels of a user's function
	count   int                        // of labels that were given, without others
}

func newLabels(most int) *labels {
	return &labels{most: most, parents: map[string]map[string]bool{}, named: map[string]bool{}}
}

// total bounds the labels of all parents together.
func (l *labels) total() int { return max(fewLabels, manyParents*l.most) }

// of returns the label of a path, and the labels that it replaces from now on.
func (l *labels) of(path string) (label string, replaced []string) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 || !fits(path) {
		return others, nil
	}
	parent, child := path[:at], path[at+1:]
	children, seen := l.parents[parent]
	switch {
	case seen && children == nil:
		return parent + anyChild, nil
	case children[child]:
		return path, nil
	case l.count >= l.total():
		return others, nil
	case len(children) < l.most:
		if !seen {
			children = map[string]bool{}
			l.parents[parent] = children
		}
		children[child] = true
		l.count++
		return path, nil
	}
	for other := range children {
		replaced = append(replaced, parent+"/"+other)
	}
	l.parents[parent] = nil
	l.count += 1 - len(children)
	return parent + anyChild, replaced
}

// given returns the label that a user's function has chosen, or others if there are too many.
func (l *labels) given(label string) string {
	switch {
	case l.named[label]:
		return label
	case len(l.named) >= l.total() || !fits(label):
		return others
	}
	l.named[label] = true
	return label
}

// fits tells whether a text can be a label: Prometheus refuses a whole scrape because of one that is not UTF-8.
func fits(text string) bool { return len(text) <= longest && utf8.ValidString(text) }

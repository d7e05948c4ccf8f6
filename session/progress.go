package session

import "context"

type progressKey struct{}

// Progress is how far a search for locks has come.
type Progress struct {
	Nodes int  // that it has looked at
	Whole bool // the tree was searched to its end once; Nodes may be those of the next search
}

// WithProgress returns a context for a walk through a tree. The walk calls report in its own goroutine as it goes on.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ReportProgress calls the function of [WithProgress], if there is one.
func ReportProgress(ctx context.Context, p Progress) {
	if report, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		report(p)
	}
}

type rootOnlyKey struct{}

// RootOnly returns a context for a walk that looks at its root, and at nothing below it. Like the reads of [Session.ReadQueue], its reads
// wait for no turn.
func RootOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, rootOnlyKey{}, true)
}

// IsRootOnly reports whether ctx is of [RootOnly].
func IsRootOnly(ctx context.Context) bool { return ctx.Value(rootOnlyKey{}) != nil }

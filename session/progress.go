package session

import "context"

type progressKey struct{}

// WithProgress returns a context for a walk through a tree. The walk calls report from its own goroutine with the number of nodes that it
// has looked at so far. After a complete walk a new one begins with a small number again.
func WithProgress(ctx context.Context, report func(nodes int)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ReportProgress calls the function of [WithProgress], if there is one.
func ReportProgress(ctx context.Context, nodes int) {
	if report, ok := ctx.Value(progressKey{}).(func(int)); ok {
		report(nodes)
	}
}

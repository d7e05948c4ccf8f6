package doctor

// Findings judges a single node, so that the findings can be printed before the walk has
// ended. [Findings] returns the same ones and more.
func (n Node) Findings() []Finding {
	if n.Refusal != "" {
		return nil
	}
	return n.findings()
}

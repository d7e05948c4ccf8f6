package recipes

// step is Step on a machine that it changes. The methods that decide share one pointer: a copy for each of them would grow the stack of
// every goroutine that takes a step.
func (m *Machine) step(in Input) []Effect {
	switch in := in.(type) {
	case Started:
		return m.onStarted(in)
	case Withdrawn:
		return m.onWithdrawn(in)
	case Opened:
		return m.onOpened(in)
	case Suspended:
		return m.onSuspended()
	case Reconnected:
		return m.onReconnected()
	case LeaseRanOut:
		return m.onLeaseRanOut()
	case Expired:
		return m.onExpired()
	case Gone:
		return m.onGone(in)
	case Created:
		return m.onCreated(in)
	case Enqueued:
		return m.onEnqueued(in)
	case Canceled:
		return m.onCanceled(in)
	case Occupied:
		return m.onOccupied(in)
	case Paused:
		return m.onPaused(in)
	case Listed:
		return m.onListed(in)
	case Claimed:
		return m.onClaimed(in)
	case Delayed:
		return m.onDelayed(in)
	case Advanced:
		return m.onAdvanced(in)
	case Surveyed:
		return m.onSurveyed(in)
	case AskedBack:
		return m.onAskedBack(in)
	case Overdue:
		return m.onOverdue(in)
	case Changed:
		return m.onChanged(in)
	case Adopted:
		return m.onAdopted()
	case Entered:
		return m.onEntered(in)
	case Deleted:
		if in.Epoch == m.epoch && m.state == Releasing {
			return m.over()
		}
		return nil
	case Refused:
		return m.onRefused(in)
	case Unknown:
		return m.onUnknown(in)
	default:
		return nil
	}
}

// Step takes one input. The effects are to be carried out in order.
func (m Machine) Step(in Input) (Machine, []Effect) {
	effects := m.step(in) // of the copy
	return m, effects
}

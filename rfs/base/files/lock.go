package files

import "errors"

// Locking selects how Lock locks a file.
type Locking int

// Lock modes.
const (
	Alone      Locking = iota // exclusive, without waiting
	Together                  // shared, without waiting
	Turn                      // exclusive; blocks until it is free
	SharedTurn                // shared; blocks while another open file has it alone
)

// ErrLocked is the error of a lock that another open file has.
var ErrLocked = errors.New("another process has the lock")

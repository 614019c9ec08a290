package phase_test

import (
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// The action of a worker follows from the state of the record alone. A state that this version does not know is an error.
func ExampleRowFor() {
	for _, state := range []string{"", session.PhaseSetup, session.PhaseCompleted} {
		row, err := phase.RowFor(session.IndexPhase, state)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %q: %s\n", row.Phase, row.State, row.Does)
	}
	_, err := phase.RowFor(session.IndexPhase, "LATER")
	fmt.Println("a state of another version:", err != nil)
	// Output:
	// indices "": lease the record; create an entry for each index. While another worker holds the lease, wait
	// indices "SETUP": lease the record; create an entry for each index. While another worker holds the lease, wait
	// indices "COMPLETED": nothing; the phase is done
	// a state of another version: true
}

package oscms_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/sim"
)

func TestTheQueueIsARegisterForManyClients(t *testing.T) {
	c := connect(t, real)
	for _, mode := range []oscms.Mode{oscms.Scripts, oscms.CAS} {
		t.Run(string(mode), func(t *testing.T) {
			s := openStore(t, oscms.Config{Client: c, Session: freshSession(t, c), Mode: mode})
			n, fits, err := sim.Hammer(t.Context(), s, 32, 20, 12, 2)
			t.Logf("%d operations", n)
			if err != nil || !fits {
				t.Errorf("%d operations: fits %v, %v", n, fits, err)
			}
		})
	}
}

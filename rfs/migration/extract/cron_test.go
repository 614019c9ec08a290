package extract

import "testing"

// TestCronOf converts schedules of the documentation of Elasticsearch and of its tests.
func TestCronOf(t *testing.T) {
	for _, c := range []struct {
		schedule      string
		unix          string
		changed, none bool
	}{
		{"0 30 1 * * ?", "30 1 * * *", false, false},
		{"0 5 9 * * ?", "5 9 * * *", false, false},
		{"0 5 9 * * ? *", "5 9 * * *", false, false},
		{"0 0/15 * * * ?", "0,15,30,45 * * * *", false, false},
		{"0 */15 9-17 ? * MON-FRI", "0,15,30,45 9-17 * * 1-5", false, false},
		{"0 0 0 ? * 1", "0 0 * * 0", false, false},
		{"0 0 0 ? * sat,sun", "0 0 * * 0,6", false, false},
		{"0 0 0 ? * FRI-MON", "0 0 * * 0,1,5,6", false, false},
		{"0 0 22-2 * * ?", "0 0-2,22,23 * * *", false, false},
		{"0 0 12 1,15 JAN-MAR,DEC ?", "0 12 1,15 1-3,12 *", false, false},
		{"0 30 9 10/5 * ?", "30 9 10,15,20,25,30 * *", false, false},
		{"0 0 0-23 1-31 1-12 ?", "0 * * * *", false, false},
		{"17 5 9 * * ?", "5 9 * * *", true, false},
		{"*/5 * * * * ?", "* * * * *", true, false},
		{"0 5 9 * * ? 2020-2030", "", false, true},
		{"0 5 9 L * ?", "", false, true},
		{"0 5 9 15W * ?", "", false, true},
		{"0 5 9 ? * 6#3", "", false, true},
		{"0 5 9 ? * MONL", "", false, true},
		{"0 5 9 1 * MON", "", false, true},
		{"0 60 9 * * ?", "", false, true},
		{"0 0/0 9 * * ?", "", false, true},
		{"0 -5 9 * * ?", "", false, true},
		{"5 9 * * *", "", false, true},
		{"", "", false, true},
		{"30m", "0,30 * * * *", true, false},
		{"60s", "* * * * *", true, false},
		{"6h", "0 0,6,12,18 * * *", true, false},
		{"1d", "0 0 * * *", true, false},
		{"24h", "0 0 * * *", true, false},
		{"7m", "", false, true},
		{"90m", "", false, true},
		{"7d", "", false, true},
		{"0m", "", false, true},
		{"999999999999d", "", false, true},
	} {
		t.Run(c.schedule, func(t *testing.T) {
			unix, changed, why := cronOf(c.schedule)
			if unix != c.unix || (changed != "") != c.changed || (why != "") != c.none {
				t.Errorf("%q, changed %q, why %q", unix, changed, why)
			}
		})
	}
}

// FuzzCronOf: whatever a schedule is, the result is an expression of five fields, or a reason.
func FuzzCronOf(f *testing.F) {
	for _, seed := range []string{"0 5 9 * * ?", "0 0/15 22-2 ? JAN-MAR FRI-MON 2030", "30m", "0 /5 , - * L"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, schedule string) {
		unix, _, why := cronOf(schedule)
		if (unix == "") != (why != "") {
			t.Fatalf("%q, why %q", unix, why)
		}
		if unix == "" {
			return
		}
		again, _, why := cronOf("0 " + quartz(unix))
		if again != unix {
			t.Errorf("%q and then %q, %s", unix, again, why)
		}
	})
}

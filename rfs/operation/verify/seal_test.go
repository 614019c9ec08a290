package verify_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/verifytest"
)

func TestAReportCarriesItsDigest(t *testing.T) {
	r := &verify.Report{Source: "<repo>", Target: "http://a", Sample: 1, Indices: []*verify.Index{{Target: "doc-10"}}}
	r.Conclude()
	sealed, err := r.Seal()
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	out := output.New(&printed)
	out.Start("rfsd verify", true)
	if err := errors.Join(out.Result(sealed), out.End(exit.OK, "")); err != nil {
		t.Fatal(err)
	}
	b := printed.Bytes()
	again, err := verifytest.Unseal(b)
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := verifytest.Unseal(bytes.Replace(b, []byte("doc-10"), []byte("doc-11"), 1)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a changed report: %v", err)
	}
}

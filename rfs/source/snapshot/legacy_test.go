package snapshot

import "testing"

// TestChecksumsBeforeLucene48AreOfWholeFiles: Elasticsearch before 1.3 lists the Adler-32 of every file, and no version;
// later ones that of older files.
func TestChecksumsBeforeLucene48AreOfWholeFiles(t *testing.T) {
	for version, footer := range map[string]bool{
		`,"written_by":"4.8"`: true, `,"written_by":"4.8.1"`: true, `,"written_by":"4.10.4"`: true, `,"written_by":"5.5.4"`: true, `,"written_by":"10.5.1"`: true,
		``: false, `,"written_by":"4.7.2"`: false, `,"written_by":"4.7"`: false, `,"written_by":"3.6"`: false,
	} {
		s := &Shard{}
		if err := s.parse([]byte(`{"name":"s","files":[{"name":"__0","physical_name":"_0_Lucene45_0.dvd","length":5,"checksum":"1z141z3"`+version+`}]}`), "s"); err != nil {
			t.Fatal(err)
		}
		f, err := s.Directory().Open("_0_Lucene45_0.dvd")
		if err != nil {
			t.Fatal(err)
		}
		crc, isCRC := f.(*file).Checksum()
		adler, isAdler := f.(*file).Adler()
		if isCRC != footer || isAdler == footer || crc != adler {
			t.Errorf("%q: CRC-32 %08x (%v), Adler-32 %08x (%v)", version, crc, isCRC, adler, isAdler)
		}
	}
}

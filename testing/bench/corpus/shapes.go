package corpus

import (
	"fmt"
	"strconv"
)

// access appends a line of a web server's log with its structured fields.
func (c *Corpus) access(dst []byte, i int) []byte {
	browser := c.r.IntN(60)
	path := c.r.IntN(1000)
	dst = append(dst, `{"@timestamp":"`...)
	dst = c.stamp(dst, i, 400)
	dst = fmt.Appendf(dst, `","message":"%d.%d.%d.%d - - \"GET /%s/%s/%d?q=%s HTTP/1.1\" %s %d `,
		1+c.r.IntN(223), c.r.IntN(256), c.r.IntN(256), c.r.IntN(256),
		c.words[path], c.words[path+1], path, c.word(), c.oneOf("200", "200", "200", "301", "404", "500"), 100+c.r.IntN(90000))
	dst = fmt.Appendf(dst, `\"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.%d (KHTML, like Gecko) Chrome/%d.0.%d.%d Safari/537.%d\""`,
		browser, 80+browser, 4000+browser*7, browser, browser)
	dst = fmt.Appendf(dst, `,"host":{"name":"web-%03d","ip":"10.0.%d.%d"}`, i%40, i%250, i%199)
	dst = fmt.Appendf(dst, `,"http":{"request":{"method":"GET","bytes":%d},"response":{"status_code":200,"bytes":%d}}`,
		100+c.r.IntN(1900), 100+c.r.IntN(90000))
	dst = append(dst, `,"trace":{"id":"`...)
	dst = c.hexID(dst, 32)
	dst = fmt.Appendf(dst, `"},"labels":{"env":"prod","team":%q},"duration_ms":%.3f,"tags":[%q,%q,%q]}`,
		c.word(), c.r.Float64()*1000, c.word(), c.word(), c.word())
	return dst
}

// order appends a purchase with a customer, one to six items and a note.
func (c *Corpus) order(dst []byte, i, revision int) []byte {
	dst = fmt.Appendf(dst, `{"order_id":%d,"revision":%d,"customer":{"id":%d,"name":"%s %s","email":"%s.%s@example.com"`,
		1_000_000+i, revision, 1+c.r.IntN(50000), c.word(), c.word(), c.word(), c.word())
	dst = fmt.Appendf(dst, `,"address":{"street":"%s %s","city":%q,"zip":"%05d","geo":{"lat":%.6f,"lon":%.6f}}}`,
		c.word(), c.word(), c.word(), c.r.IntN(100000), c.r.Float64()*160-80, c.r.Float64()*340-170)
	dst = fmt.Appendf(dst, `,"created_at":%d,"currency":%q,"items":[`, epoch+i*977, c.oneOf("EUR", "USD", "GBP"))
	for j := range 1 + c.r.IntN(6) {
		if j > 0 {
			dst = append(dst, ',')
		}
		dst = c.item(dst)
	}
	dst = append(dst, `],"total":`...)
	dst = c.money(dst, 3000)
	dst = fmt.Appendf(dst, `,"status":%q,"notes":"`, c.oneOf("paid", "open", "shipped"))
	dst = c.text(dst, 6+c.r.IntN(51))
	dst = append(dst, `","flags":{"gift":`...)
	dst = strconv.AppendBool(dst, c.r.IntN(10) == 0)
	return append(dst, `,"vip":null}}`...)
}

func (c *Corpus) item(dst []byte) []byte {
	dst = fmt.Appendf(dst, `{"sku":"SKU-%05d","name":"`, 1+c.r.IntN(99999))
	dst = c.text(dst, 4)
	dst = fmt.Appendf(dst, `","qty":%d,"price":`, 1+c.r.IntN(5))
	dst = c.money(dst, 500)
	return fmt.Appendf(dst, `,"attrs":{"color":%q,"size":%q}}`, c.oneOf("red", "blue", "grün"), c.oneOf("S", "M", "L"))
}

// logLine appends one line of a service's log.
func (c *Corpus) logLine(dst []byte, i int) []byte {
	dst = append(dst, `{"@timestamp":"`...)
	dst = c.stamp(dst, i, 130)
	dst = fmt.Appendf(dst, `","level":%q,"service":"svc-%s","host":"node-%03d","pid":%d,"thread":"worker-%d","logger":"com.example.%s.%s","trace_id":"`,
		c.oneOf("INFO", "INFO", "INFO", "INFO", "WARN", "DEBUG", "ERROR"), c.words[i%50], c.r.IntN(60), 1000+c.r.IntN(30000), c.r.IntN(16), c.words[i%97], c.words[i%50])
	dst = c.hexID(dst, 16)
	dst = append(dst, `","message":"`...)
	dst = c.text(dst, 4+c.r.IntN(12))
	return fmt.Appendf(dst, ` in %d ms","status":%s,"bytes":%d}`, c.r.IntN(3000), c.oneOf("200", "200", "404", "503"), c.r.IntN(90000))
}

// counter appends one value of one counter.
func (c *Corpus) counter(dst []byte, i int) []byte {
	return fmt.Appendf(dst, `{"t":%d,"k":"c%02d","v":%5d}`, epoch+i*10, i%40, c.r.IntN(90000)+10000)
}

// batch appends four orders.
func (c *Corpus) batch(dst []byte, i, revision int) []byte {
	dst = append(dst, `{"orders":[`...)
	for j := range 4 {
		if j > 0 {
			dst = append(dst, ',')
		}
		dst = c.order(dst, 4*i+j, revision)
	}
	return append(dst, `]}`...)
}

// letter appends a text of about size bytes.
func (c *Corpus) letter(dst []byte, i, size int) []byte {
	dst = fmt.Appendf(dst, `{"order_id":%d,"notes":"`, i)
	for end := len(dst) + size; len(dst) < end; {
		dst = append(c.text(dst, 20), ". "...)
	}
	return append(dst, `"}`...)
}

import fc from 'fast-check';
import t from 'tap';
import { groupsOf, readAddress } from './ip-address.ts';

t.test('reads IP addresses, and an IPv4 address also in its IPv4-mapped IPv6 forms', async (t) => {
  for (const [text, address] of [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::FFFF:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['0:0:0:0:0:ffff:cb00:7107', '203.0.113.7'],
    ['0000:0000:0000:0000:0000:FFFF:203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7%eth0', '203.0.113.7'],
    ['::ffff:0:0', '0.0.0.0'],
    // The deprecated form of an embedded address (RFC 4291, 2.5.5.1) leads to the same host.
    ['::203.0.113.7', '203.0.113.7'],
    ['64:ff9b::203.0.113.7', '64:ff9b::203.0.113.7'],
    ['1::ffff:203.0.113.7', '1::ffff:203.0.113.7'],
    ['2001:db8::1', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
  ] as const) {
    t.equal(readAddress(text), address, text);
  }
  for (const none of ['', 'unknown', '1.2.3', '203.0.113.7%eth0', '203.0.113.7:80', '[::1]', '::1::', 'x::1']) {
    t.equal(readAddress(none), null, none);
  }
});

t.test('reads the eight groups of an IPv6 address in every shortened form', async (t) => {
  t.strictSame(groupsOf('::'), [0, 0, 0, 0, 0, 0, 0, 0]);
  t.strictSame(groupsOf('64:ff9b::203.0.113.7'), [0x64, 0xff9b, 0, 0, 0, 0, 0xcb00, 0x7107]);
  const group = fc.integer({ min: 0, max: 0xffff });
  fc.assert(
    fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), fc.nat(7), fc.nat(8), (groups, from, length) => {
      const wanted = groups.map((value, index) => (index >= from && index < from + length ? 0 : value));
      const hex = wanted.map((value) => value.toString(16));
      const short = `${hex.slice(0, from).join(':')}::${hex.slice(from + length).join(':')}`;
      const isShort = length > 0 && from < 8;
      return String(groupsOf(isShort ? short : hex.join(':'))) === String(wanted);
    }),
  );
});

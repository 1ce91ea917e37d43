import fc from 'fast-check';
import t from 'tap';
import { countedAs, groupsOf, networksOf, readAddress } from './ip-address.ts';
import { openKeyedHash } from './keyed-hash.ts';

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

t.test('failed logins are counted by IPv4 address or IPv6 /64 network', async (t) => {
  for (const [address, key] of [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['2001:db8:0:1:aaaa:bbbb:cccc:dddd', '2001:db8:0:1::/64'],
    ['2001:db8:0:1::1', '2001:db8:0:1::/64'],
    ['2001:0DB8:0000:0001::', '2001:db8:0:1::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8::2:0:0:0:1', '2001:db8:0:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::203.0.113.7', '64:ff9b:0:0::/64'],
    ['', ''],
    ['unknown', 'unknown'],
  ] as const) {
    t.equal(countedAs(address), key, address);
  }
  t.equal(countedAs('x'.repeat(1_000)).length, 64, 'a long text from a proxy is cut');
});

t.test('an IPv6 network has one key in every notation, and two networks have two keys', async () => {
  const group = fc.integer({ min: 0, max: 0xffff });
  const network = fc.tuple(group, group, group, group);
  const hex = (groups: readonly number[], width: number) =>
    groups.map((value) => value.toString(16).padStart(width, '0')).join(':');
  fc.assert(
    fc.property(network, network, network, (net, host, other) => {
      const key = countedAs(`${hex(net, 1)}:${hex(host, 4)}`);
      const short = countedAs(`${hex(net, 4).toUpperCase()}::`);
      const same = String(net) === String(other);
      return key === short && (countedAs(`${hex(other, 1)}:${hex(host, 1)}`) === key) === same;
    }),
  );
});

t.test('an address is in its networks, the widest first', async (t) => {
  for (const [address, networks] of [
    ['203.0.113.7', ['203.0.113.0/24', '203.0.113.7']],
    ['2001:db8:a:b1c2::7', ['2001:db8:a::/48', '2001:db8:a:b100::/56', '2001:db8:a:b1c2::/64']],
    ['2001:db8::1', ['2001:db8:0::/48', '2001:db8:0:0::/56', '2001:db8:0:0::/64']],
    ['unknown', ['unknown']],
    ['', ['']],
  ] as const) {
    t.strictSame(networksOf(countedAs(address)), networks, address);
  }
});

t.test('65,536 networks of one customer share their widest network', async (t) => {
  const widest = new Set<string | undefined>();
  for (let subnet = 0; subnet < 65_536; subnet += 1) {
    widest.add(networksOf(countedAs(`2001:db8:a:${subnet.toString(16)}::1`))[0]);
  }
  t.strictSame([...widest], ['2001:db8:a::/48']);
});

t.test(
  'equal values have equal hashes under one secret, and other hashes under another secret or as another kind',
  async (t) => {
    const [hash, same, other] = ['s'.repeat(32), 's'.repeat(32), 'o'.repeat(32)].map(openKeyedHash);
    const address = '203.0.113.7';
    t.equal(hash?.('address', address), same?.('address', address));
    const all = [
      hash?.('address', address),
      hash?.('account', address),
      other?.('address', address),
      hash?.('address', '203.0.113.8'),
    ];
    t.equal(new Set(all).size, 4);
    for (const one of all) t.match(one, /^[\w-]{16}$/);
  },
);

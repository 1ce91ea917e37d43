import fc from 'fast-check';
import t from 'tap';
import { countedAs } from './ip-address.ts';

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

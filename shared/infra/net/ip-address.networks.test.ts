import t from 'tap';
import { countedAs, networksOf } from './ip-address.ts';

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

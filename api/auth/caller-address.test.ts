import t from 'tap';
import { openCallerAddress } from './caller-address.ts';

t.test('the caller’s address is the peer, or the last hop behind a trusted proxy', async (t) => {
  const addressOf = openCallerAddress(['10.0.0.0/8', '192.168.1.7', 'fd00::/8']);
  for (const [peer, forwarded, wanted] of [
    ['203.0.113.9', undefined, '203.0.113.9'],
    ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['::ffff:10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['10.1.2.3', 'spoofed, 198.51.100.1', '198.51.100.1'],
    ['10.1.2.3', '198.51.100.1, not an address', '10.1.2.3'],
    ['10.1.2.3', undefined, '10.1.2.3'],
    ['192.168.1.7', '2001:db8::1', '2001:db8::1'],
    ['192.168.1.8', '2001:db8::1', '192.168.1.8'],
    ['fd00::1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['fd00::1%eth0', '::ffff:c633:6401', '198.51.100.1'],
    ['fe80::1%eth0', '198.51.100.1', 'fe80::1'],
    ['', '198.51.100.1', ''],
  ] as const) {
    t.equal(addressOf(peer, forwarded), wanted, `${peer} ${forwarded}`);
  }
  t.equal(
    openCallerAddress([])('10.1.2.3', '198.51.100.1'),
    '10.1.2.3',
    'without configuration no peer is a trusted proxy',
  );
});

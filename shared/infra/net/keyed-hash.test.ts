import t from 'tap';
import { openKeyedHash } from './keyed-hash.ts';

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

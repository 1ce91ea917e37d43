import type { LookupAddress } from 'node:dns';
import t from 'tap';
import { guardedLookup, isForbiddenAddress } from './guarded-agent.ts';

/** Returns the result of the guarded lookup for a name that resolves to these addresses. */
function looked(addresses: string[], options: { allowsPrivate: boolean; all?: boolean; hostname?: string }) {
  const found = addresses.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 }));
  const resolve = (_name: string, _options: unknown, answer: (error: null, found: LookupAddress[]) => void) =>
    answer(null, found);
  return new Promise((settle) => {
    guardedLookup(options, resolve as never)(
      options.hostname ?? 'models.example',
      { all: options.all ?? true },
      (error, ...rest) => settle(error === null ? rest : error),
    );
  });
}

t.test('the guarded lookup returns the addresses that it has checked', async (t) => {
  t.strictSame(await looked(['93.184.216.34', '2606:4700::1'], { allowsPrivate: false }), [
    [
      { address: '93.184.216.34', family: 4 },
      { address: '2606:4700::1', family: 6 },
    ],
  ]);
  t.strictSame(await looked(['93.184.216.34'], { allowsPrivate: false, all: false }), ['93.184.216.34', 4]);
});

t.test('one private address refuses all addresses, unless an operator listed the origin', async (t) => {
  for (const address of ['127.0.0.1', '10.0.0.5', '::1', 'fd12::1', '::ffff:192.168.0.1']) {
    t.ok(isForbiddenAddress(await looked(['93.184.216.34', address], { allowsPrivate: false })), address);
    t.notOk(isForbiddenAddress(await looked(['93.184.216.34', address], { allowsPrivate: true })), address);
  }
});

t.test('link-local and metadata addresses are refused, even for a listed origin', async (t) => {
  for (const address of ['169.254.169.254', 'fe80::1', '::ffff:169.254.169.254', '0.0.0.0', '100.100.100.200']) {
    t.ok(isForbiddenAddress(await looked([address], { allowsPrivate: true })), address);
  }
  const hostname = 'metadata.google.internal';
  t.ok(isForbiddenAddress(await looked(['93.184.216.34'], { allowsPrivate: true, hostname })));
});

t.test('a name without an address fails with ENOTFOUND', async (t) => {
  t.match(await looked([], { allowsPrivate: true }), { code: 'ENOTFOUND' });
});

t.test('a forbidden address is recognized as the cause of a fetch error', async (t) => {
  const reason = await looked(['169.254.169.254'], { allowsPrivate: true });
  t.ok(isForbiddenAddress(new TypeError('fetch failed', { cause: reason })));
  t.notOk(isForbiddenAddress(new TypeError('fetch failed')));
});

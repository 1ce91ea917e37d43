import fc from 'fast-check';
import t from 'tap';
import { addressKind, isMetadataName } from './address-kind.ts';
import { readBaseUrl } from './target.ts';

const read = (text: string, provider: 'openai' | 'local' | 'mock' = 'openai', allowedOrigins: string[] = []) =>
  readBaseUrl(text, { provider, allowedOrigins });

t.test('official origins and listed ones', async (t) => {
  t.strictSame(read('https://api.openai.com/v1/'), {
    kind: 'allowed',
    url: 'https://api.openai.com/v1',
    origin: 'https://api.openai.com',
  });
  t.match(read('https://api.openai.com:443/other'), { url: 'https://api.openai.com/other' });
  t.match(read('https://proxy.example:8443/x', 'openai', ['https://proxy.example:8443']), {
    origin: 'https://proxy.example:8443',
  });
  t.match(read('http://127.0.0.1:11434/v1', 'local', ['http://127.0.0.1:11434']), { url: 'http://127.0.0.1:11434/v1' });
  t.match(read('http://localhost:11434', 'local', ['http://localhost:11434']), { origin: 'http://localhost:11434' });
  t.match(read('http://[::1]:1', 'local', ['http://[::1]:1']), { origin: 'http://[::1]:1' });
  t.match(read('https://10.0.0.5', 'local', ['https://10.0.0.5']), { origin: 'https://10.0.0.5' });
});

t.test('every other origin keeps its hands off the key', async (t) => {
  for (const text of [
    'https://evil.example',
    'https://api.openai.com.evil.example',
    'https://api.anthropic.com',
    'https://api.openai.com:8443',
    'http://api.openai.com/v1',
    'https://127.0.0.1',
    'https://10.0.0.5',
    'https://localhost',
    'https://[::1]/',
  ]) {
    t.match(read(text), { fault: 'ORIGIN_NOT_ALLOWED' }, text);
  }
  t.match(read('https://api.openai.com', 'local'), { fault: 'ORIGIN_NOT_ALLOWED' }, 'local has no official one');
  t.match(read('https://api.openai.com', 'mock'), { fault: 'ORIGIN_NOT_ALLOWED' });
});

t.test('plain http is for listed loopback addresses', async (t) => {
  for (const origin of ['http://models.example', 'http://10.0.0.5', 'http://localhost.example']) {
    t.match(read(`${origin}/v1`, 'local', [origin]), { fault: 'NOT_HTTPS' }, origin);
  }
});

t.test('link-local and metadata addresses are never asked, listed or not', async (t) => {
  for (const host of [
    '169.254.169.254',
    '[::ffff:169.254.169.254]',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '100.100.100.200',
    '0.0.0.0',
    '[::]',
    'metadata.google.internal',
    'metadata',
    '[64:ff9b::a9fe:a9fe]',
    '224.0.0.1',
  ]) {
    const { origin } = new URL(`https://${host}`);
    t.match(read(origin, 'local', [origin]), { fault: 'FORBIDDEN_HOST' }, host);
  }
});

t.test('what two readers could understand differently is no address', async (t) => {
  const listed = ['https://127.0.0.1', 'https://api.openai.com', 'https://xn--bcher-kva.example'];
  for (const text of [
    '',
    ' ',
    'api.openai.com',
    '//api.openai.com',
    'https:api.openai.com',
    'https:/api.openai.com',
    'ftp://api.openai.com',
    'https://user@api.openai.com',
    'https://u:p@api.openai.com',
    'https://evil.example\\@api.openai.com',
    'https://api.openai.com/?x=1',
    'https://api.openai.com/#x',
    'https://api.openai.com/%2e%2e',
    'https://api%2eopenai.com',
    'https://api.openai.com./v1',
    'https://api.openai.com/v1\n',
    'https://api.openai.com\t/v1',
    'https://2130706433',
    'https://0x7f.1',
    'https://017700000001',
    'https://127.1',
    'https://bücher.example',
    'https://api.openai.com:0',
    `https://api.openai.com/${'x'.repeat(3_000)}`,
    'javascript:alert(1)',
  ]) {
    t.match(read(text, 'openai', listed), { fault: 'NOT_A_BASE_URL' }, text);
  }
});

t.test('every text is judged, and what passes goes to a known origin', async () => {
  const known = ['https://api.openai.com', 'https://listed.example'];
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.webUrl(), fc.webUrl({ withFragments: true, withQueryParameters: true })),
      (text) => {
        const found = read(text, 'openai', ['https://listed.example']);
        return found.kind === 'refused' || known.includes(new URL(found.url).origin);
      },
    ),
  );
});

t.test('kinds of addresses', async (t) => {
  const kinds = {
    public: ['8.8.8.8', '2606:4700::1111', '172.32.0.1', '100.128.0.1', '[2001:db8::1]', '::ffff:8.8.8.8'],
    private: [
      '10.1.2.3',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '100.64.0.1',
      'fd12::1',
      '::ffff:10.0.0.1',
      '2002:a00:1::',
    ],
    loopback: ['127.0.0.1', '127.255.0.1', '::1', '0:0:0:0:0:0:0:1', '::ffff:7f00:1'],
    forbidden: [
      '169.254.0.1',
      'fe80::1%eth0',
      'febf::1',
      'ff02::1',
      '255.255.255.255',
      '::',
      '::ffff:169.254.169.254',
      '168.63.129.16',
    ],
  };
  for (const [kind, addresses] of Object.entries(kinds)) {
    for (const address of addresses) t.equal(addressKind(address), kind, address);
  }
  for (const text of ['localhost', '', '1.2.3', '256.1.1.1', ':::', '1:2:3:4:5:6:7:8:9', 'g::1'])
    t.equal(addressKind(text), null, text);
  t.ok(isMetadataName('Metadata.Google.Internal'));
});

import fc from 'fast-check';
import t from 'tap';
import { type AddressKind, addressKind, isMetadataName } from './address-kind.ts';
import { readBaseUrl, targetOf } from './target.ts';

const MOCK_ONLY = { provider: 'mock', baseUrl: null, places: {} } as const;

const read = (text: string, provider: 'openai' | 'local' | 'mock' = 'openai', allowedOrigins: string[] = []) =>
  readBaseUrl(text, provider, { ...MOCK_ONLY, allowedOrigins });

/** Reads a URL in a process whose environment selects `local` at this base URL. */
const readBeside = (baseUrl: string, text = baseUrl, provider: 'openai' | 'local' = 'local') =>
  readBaseUrl(text, provider, { provider: 'local', baseUrl, places: {}, allowedOrigins: [] });

t.test('official and listed origins are allowed', async (t) => {
  t.strictSame(read('https://api.openai.com/v1/'), {
    kind: 'allowed',
    url: 'https://api.openai.com/v1',
    origin: 'https://api.openai.com',
    isNamed: false,
  });
  t.match(read('https://api.openai.com:443/other'), { url: 'https://api.openai.com/other' });
  t.match(read('https://proxy.example:8443/x', 'openai', ['https://proxy.example:8443']), {
    origin: 'https://proxy.example:8443',
    isNamed: true,
  });
  t.match(read('http://127.0.0.1:11434/v1', 'local', ['http://127.0.0.1:11434']), { url: 'http://127.0.0.1:11434/v1' });
  t.match(read('http://localhost:11434', 'local', ['http://localhost:11434']), { origin: 'http://localhost:11434' });
  t.match(read('http://[::1]:1', 'local', ['http://[::1]:1']), { origin: 'http://[::1]:1' });
  t.match(read('https://10.0.0.5', 'local', ['https://10.0.0.5']), { origin: 'https://10.0.0.5' });
});

t.test('every other origin is refused', async (t) => {
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

t.test("the environment's own base URL is trusted for its provider", async (t) => {
  for (const origin of ['https://models.example', 'https://10.0.0.5:8443', 'http://127.0.0.1:11434']) {
    t.match(readBeside(`${origin}/v1`), { kind: 'allowed', url: `${origin}/v1`, origin, isNamed: true });
    t.match(readBeside(`${origin}/v1/`, `${origin}/other`), { kind: 'allowed' }, 'another path of its origin');
    t.match(readBeside(origin, origin, 'openai'), { fault: 'ORIGIN_NOT_ALLOWED' }, 'not for another provider');
    t.match(readBeside('https://elsewhere.example', origin), { fault: 'ORIGIN_NOT_ALLOWED' });
  }
  t.match(readBeside('', 'https://models.example'), { fault: 'ORIGIN_NOT_ALLOWED' });
});

t.test('the base URL of a provider in the environment is trusted for it, whichever is selected', async (t) => {
  const places = { openai: { baseUrl: 'https://proxy.example/v1', model: 'm-9' } };
  const settings = {
    ...MOCK_ONLY,
    places,
    allowedOrigins: [],
    keys: { OPENAI_API_KEY: 'sk-1', GEMINI_API_KEY: 'k-2' },
  };
  t.match(readBaseUrl('https://proxy.example/other', 'openai', settings), { kind: 'allowed', isNamed: true });
  t.match(readBaseUrl('https://proxy.example', 'gemini', settings), { fault: 'ORIGIN_NOT_ALLOWED' });
  const none = { model: null, baseUrl: null, apiKeyRef: null };
  t.match(targetOf({ ...none, provider: 'openai' }, settings), {
    target: { baseUrl: 'https://proxy.example/v1', model: 'm-9', key: 'sk-1' },
  });
  t.match(targetOf({ ...none, provider: 'openai', model: 'm-1', baseUrl: 'https://api.openai.com/v1' }, settings), {
    target: { baseUrl: 'https://api.openai.com/v1', model: 'm-1' },
  });
  t.match(targetOf({ ...none, provider: 'gemini' }, settings), {
    target: { baseUrl: 'https://generativelanguage.googleapis.com/v1beta', model: 'gemini-2.5-flash' },
  });
});

t.test(
  'plain http is allowed for loopback and private addresses and one-label hosts that the environment names',
  async (t) => {
    for (const host of [
      '127.0.0.1:11434',
      'localhost:1',
      '[::1]:1',
      '10.0.0.5',
      '192.168.1.4:8000',
      '[fd12::1]',
      'ollama:11434',
    ]) {
      const url = `http://${host}`;
      t.match(read(url, 'local', [url]), { kind: 'allowed', url }, `listed ${host}`);
      t.match(readBeside(url), { kind: 'allowed', url }, `own ${host}`);
      t.match(read(url, 'local'), { fault: 'ORIGIN_NOT_ALLOWED' }, `an unlisted ${host} is refused`);
    }
    for (const host of [
      'models.example',
      'localhost.example',
      '8.8.8.8',
      '[2606:4700::1111]',
      'host.docker.internal',
    ]) {
      const url = `http://${host}`;
      t.match(read(url, 'local', [url]), { fault: 'NOT_HTTPS' }, `listed ${host}`);
      t.match(readBeside(url), { fault: 'NOT_HTTPS' }, `own ${host}`);
    }
  },
);

t.test('link-local and metadata addresses are refused, even if the environment names them', async (t) => {
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
    '[64:ff9b:1::a9fe:a9fe]',
    '[::ffff:0:a9fe:a9fe]',
    '224.0.0.1',
  ]) {
    const { origin } = new URL(`https://${host}`);
    for (const url of [origin, origin.replace('https', 'http')]) {
      t.match(read(url, 'local', [url]), { fault: 'FORBIDDEN_HOST' }, url);
      t.match(readBeside(url), { fault: 'FORBIDDEN_HOST' }, url);
    }
  }
});

t.test('a spelling that two URL parsers could read differently is refused', async (t) => {
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

t.test('any text is refused or becomes a known origin without credentials or query', async () => {
  const known = ['https://api.openai.com', 'https://listed.example'];
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.webUrl(), fc.webUrl({ withFragments: true, withQueryParameters: true })),
      (text) => {
        const found = read(text, 'openai', ['https://listed.example']);
        if (found.kind === 'refused') return true;
        const { origin, username, password, search, hash } = new URL(found.url);
        return known.includes(origin) && `${username}${password}${search}${hash}` === '';
      },
    ),
  );
});

/** First and last addresses of ranges, and their neighbours outside. */
const KINDS: readonly (readonly [subject: string, kind: AddressKind, addresses: readonly string[]])[] = [
  ['public IPv4', 'public', ['8.8.8.8', '1.0.0.0', '126.255.255.255', '223.255.255.255']],
  ['this network', 'forbidden', ['0.0.0.0', '0.255.255.255']],
  ['10.0.0.0/8', 'private', ['10.0.0.0', '10.255.255.255']],
  ['beside 10.0.0.0/8', 'public', ['9.255.255.255', '11.0.0.0']],
  ['shared by a carrier', 'private', ['100.64.0.1', '100.127.255.255']],
  ['beside shared', 'public', ['100.63.255.255', '100.128.0.1']],
  ['loopback', 'loopback', ['127.0.0.1', '127.255.0.1', '::1', '0:0:0:0:0:0:0:1']],
  ['link-local', 'forbidden', ['169.254.0.1', 'fe80::1%eth0', 'febf::1', 'fec0::1']],
  ['172.16.0.0/12', 'private', ['172.16.0.1', '172.31.255.255']],
  ['beside 172.16.0.0/12', 'public', ['172.15.255.255', '172.32.0.1']],
  ['192.168.0.0/16', 'private', ['192.168.1.1', '192.168.255.255']],
  ['protocol assignments', 'forbidden', ['192.0.0.1', '192.0.0.170', '2001:1::1', '2001:1ff:ffff::1']],
  ['documentation', 'forbidden', ['192.0.2.1', '198.51.100.255', '203.0.113.7', '2001:db8::1', '3fff:fff:ffff::1']],
  ['beside documentation', 'public', ['192.0.3.0', '203.0.114.0', '2001:db9::1', '3fff:1000::1', '3ffe::1']],
  ['relays of 6to4', 'forbidden', ['192.88.99.1']],
  ['benchmarking', 'private', ['198.18.0.1', '198.19.255.255']],
  ['benchmarking by IPv6', 'forbidden', ['2001:2::1']],
  ['multicast and reserved', 'forbidden', ['224.0.0.1', '239.1.2.3', '240.0.0.1', '255.255.255.255', 'ff02::1']],
  ['metadata', 'forbidden', ['168.63.129.16', '100.100.100.200', 'fd00:ec2::254', 'fd20:ce::254']],
  ['public IPv6', 'public', ['2606:4700::1111', '2001:200::1', '2000::1', '3ffe:ffff::1', '[2606:4700::1111]']],
  ['unique local', 'private', ['fd12::1', 'fc00::', 'fdff:ffff::1']],
  ['unspecified', 'forbidden', ['::']],
  ['discard and dummy', 'forbidden', ['100::1', '100:0:0:1::1']],
  ['segment routing', 'forbidden', ['5f00::1']],
  ['unassigned IPv6', 'forbidden', ['4000::1', '1fff:ffff::1', 'fbff::1', 'fe00::1', '64:ff9b:0:0:0:1:808:808']],

  ['mapped', 'public', ['::ffff:8.8.8.8']],
  ['mapped', 'private', ['::ffff:10.0.0.1']],
  ['mapped', 'loopback', ['::ffff:7f00:1']],
  ['mapped', 'forbidden', ['::ffff:169.254.169.254', '::ffff:0.0.0.0']],
  ['compatible', 'private', ['::10.0.0.1']],
  ['compatible', 'loopback', ['::127.0.0.1']],
  ['NAT64', 'public', ['64:ff9b::8.8.8.8']],
  ['NAT64', 'private', ['64:ff9b::10.0.0.1']],
  ['NAT64', 'forbidden', ['64:ff9b::a9fe:a9fe']],
  ['6to4', 'public', ['2002:808:808::1']],
  ['6to4', 'private', ['2002:a00:1::', '2002:c0a8:101::1']],
  ['6to4', 'loopback', ['2002:7f00:1::1']],
  ['6to4', 'forbidden', ['2002:a9fe:a9fe::1']],
  [
    'NAT64 with a local prefix of each length',
    'forbidden',
    ['64:ff9b:1::10.0.0.1', '64:ff9b:1:a00:0:100::', '64:ff9b:1:a::1', '64:ff9b:1:ffff::8.8.8.8'],
  ],
  ['beside NAT64', 'forbidden', ['64:ff9b:2::1', '64:ff9a::8.8.8.8']],
  ['Teredo', 'forbidden', ['2001::1', '2001:0:4136:e378:8000:63bf:f5ff:fffe', '2001:0:a00:1::1']],
  ['SIIT', 'forbidden', ['::ffff:0:10.0.0.1', '::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8']],
  ['ISATAP', 'forbidden', ['2606:4700::5efe:10.0.0.1', '2606:4700::200:5efe:7f00:1', 'fd12::5efe:169.254.169.254']],
  ['ISATAP', 'public', ['2606:4700::200:5efe:8.8.8.8']],
  ['like ISATAP', 'public', ['2606:4700::400:5efe:10.0.0.1', '2606:4700::5eff:10.0.0.1']],
];

t.test('addresses are public, private, loopback or forbidden', async (t) => {
  for (const [subject, kind, addresses] of KINDS) {
    for (const address of addresses) t.equal(addressKind(address), kind, `${subject}: ${address}`);
  }
});

t.test('text that is no address has no kind, and names of metadata services are known', async (t) => {
  for (const text of ['localhost', '', '1.2.3', '256.1.1.1', ':::', '1:2:3:4:5:6:7:8:9', 'g::1'])
    t.equal(addressKind(text), null, text);
  t.ok(isMetadataName('Metadata.Google.Internal'));
});

import t from 'tap';
import { type AddressKind, addressKind, isMetadataName } from './address-kind.ts';

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

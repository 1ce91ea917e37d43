import ipaddr from 'ipaddr.js';

const { IPv4, IPv6 } = ipaddr;

/**
 * Kind of an IP address, for a call that carries a key. `forbidden`: link-local (cloud metadata), unspecified, multicast or
 * reserved; no model is ever called there. `private` and `loopback`: allowed only if the environment names the address.
 */
export type AddressKind = 'public' | 'private' | 'loopback' | 'forbidden';

/** Addresses of metadata services outside the link-local range. */
const METADATA = ['100.100.100.200', '168.63.129.16', 'fd00:ec2:0:0:0:0:0:254', 'fd20:ce:0:0:0:0:0:254'];
const METADATA_NAMES = [
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
];

/** Kinds of IPv4 networks by their entry in the registries of IANA. Any other entry, such as link-local or multicast, is forbidden. */
const QUADS: ReadonlyMap<string, AddressKind> = new Map([
  ['unicast', 'public'],
  ['as112', 'public'],
  ['amt', 'public'],
  ['private', 'private'],
  ['carrierGradeNat', 'private'],
  ['loopback', 'loopback'],
]);
/** Networks of benchmarks, which are private although they are reserved. */
const BENCHMARKS = IPv4.parseCIDR('198.18.0.0/15');
/** The only addresses that are routed between networks. Any other range that the registry does not name is forbidden. */
const ROUTED = IPv6.parseCIDR('2000::/3');
/** NAT64 with a local prefix leads to any IPv4 address, and its length, which places that address, is unknown (RFC 8215). */
const LOCAL_NAT64 = IPv6.parseCIDR('64:ff9b:1::/48');
/** Index of the IPv4 address that an IPv6 address of these registry entries leads to, in groups. */
const EMBEDDED: ReadonlyMap<string, number> = new Map([
  ['ipv4Mapped', 6],
  ['rfc6052', 6],
  ['6to4', 1],
]);

/**
 * Returns the kind of an address as a resolver or a URL's host name spells it; IPv6 may have brackets. Returns null if the text is
 * not an IP address.
 */
export function addressKind(text: string): AddressKind | null {
  const bare = text.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  if (IPv4.isValidFourPartDecimal(bare)) return kindOfQuad(IPv4.parse(bare));
  return IPv6.isValid(bare) ? kindOfGroups(IPv6.parse(bare)) : null;
}

/** Returns true for a host name of a cloud's metadata service, whatever address it resolves to. */
export function isMetadataName(hostname: string): boolean {
  return METADATA_NAMES.includes(hostname.toLowerCase());
}

function kindOfQuad(address: ipaddr.IPv4): AddressKind {
  if (METADATA.includes(address.toString())) return 'forbidden';
  return address.match(BENCHMARKS) ? 'private' : (QUADS.get(address.range()) ?? 'forbidden');
}

function kindOfGroups(address: ipaddr.IPv6): AddressKind {
  if (METADATA.includes(address.toNormalizedString())) return 'forbidden';
  const range = address.range();
  if (address.match(LOCAL_NAT64)) return 'forbidden';
  const embedded = EMBEDDED.get(range);
  if (embedded !== undefined) return kindOfEmbedded(address, embedded);
  if (range === 'loopback') return 'loopback';
  // ISATAP (RFC 5214): the second half of an address of any network leads to an IPv4 address behind its router.
  const [, , , , flags = 0, mark] = address.parts;
  const isIsatap = (flags & 0xfcff) === 0 && mark === 0x5efe;
  if (isIsatap && kindOfEmbedded(address, 6) !== 'public') return 'forbidden';
  if (range === 'uniqueLocal') return 'private';
  return range === 'unicast' && address.match(ROUTED) ? 'public' : 'forbidden';
}

function kindOfEmbedded({ parts }: ipaddr.IPv6, at: number): AddressKind {
  return kindOfQuad(new IPv4(parts.slice(at, at + 2).flatMap((group) => [group >> 8, group & 0xff])));
}

import { isIP } from 'node:net';
import { unreadableIn, weaknessOf } from '#infra/mongo/connect.ts';
import { readRedisUrl } from '#infra/redis/redis-url.ts';

// Forms of the texts of variables. A description of a wanted text quotes no part of the given one,
// which may be a password.

/** Longest name of a model that a reply can have. */
const MAX_MODEL_NAME = 200;

/** Returns a description of the wanted value, or undefined if the text is valid. */
export function wantedText(kind: 'text' | 'model' | 'id' | 'mongodb' | 'redis', value: string): string | undefined {
  if (kind === 'id') return /^[A-Za-z0-9._:-]{1,128}$/.test(value) ? undefined : '1 to 128 of A-Z a-z 0-9 . _ : -';
  if (kind === 'text' || kind === 'model') {
    if (value.trim() === '') return 'non-empty text';
    return kind === 'model' && value.length > MAX_MODEL_NAME ? `at most ${MAX_MODEL_NAME} characters` : undefined;
  }
  return kind === 'redis' ? wantedOfRedis(value) : wantedOfMongodb(value);
}

function wantedOfRedis(value: string): string | undefined {
  if (!/^rediss?:\/\/[^\s/]/.test(value)) return 'a redis:// or rediss:// URL';
  try {
    readRedisUrl(value);
    return undefined;
  } catch (error) {
    // For an incomplete escape the error is JavaScript's own URIError, whose message does not help.
    const reason = error instanceof URIError ? 'its user name or password is not percent-encoded' : messageOf(error);
    return `a redis:// or rediss:// URL (${reason})`;
  }
}

function wantedOfMongodb(value: string): string | undefined {
  if (!/^mongodb(\+srv)?:\/\/[^\s/?]/.test(value)) return 'a mongodb:// or mongodb+srv:// URL';
  const weakness = weaknessOf(value);
  if (weakness !== undefined) return `w=majority, journaled writes and majority reads of the primary (${weakness})`;
  const unreadable = unreadableIn(value);
  return unreadable === undefined ? undefined : `a mongodb:// or mongodb+srv:// URL (${unreadable})`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function isBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  if (!url || !['http:', 'https:'].includes(url.protocol)) return false;
  return url.username === '' && url.password === '' && !/[?#\s]/.test(text);
}

export function isWebhookUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || /[#\s]/.test(text) || url.username !== '' || url.password !== '') return false;
  if (url.protocol === 'https:') return true;
  return url.protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
}

/** Returns true for an IP address or a network in CIDR notation, such as `10.0.0.0/8`. */
export function isAddressOrNetwork(text: string): boolean {
  const [address = '', prefix, ...more] = text.split('/');
  const family = isIP(address);
  // A zone (`fe80::1%eth0`) names an interface of this machine and cannot describe a remote
  // network.
  if (family === 0 || more.length > 0 || address.includes('%')) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128));
}

/** Returns true for the name of a service, as it stands in `X-Internal-Service`. */
export const isServiceName = (text: string): boolean => /^[A-Za-z0-9._:-]{1,128}$/.test(text);

/** Returns true for a host name with two labels or more, but not for an IP address or the name of a private network. */
export const isPublicHost = (text: string): boolean =>
  /^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+(?!(?:local|localhost|internal|home|lan|intranet|corp|svc)$)[a-z]{2,63}$/.test(
    text,
  );

/** Returns the parts of a comma-separated list, without empty ones. */
export function partsOf(list: string | null): string[] {
  const parts = (list ?? '').split(',').map((part) => part.trim());
  return parts.filter((part) => part !== '');
}

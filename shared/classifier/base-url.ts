import { addressKind, isMetadataName } from './address-kind.ts';
import { OFFICIAL_BASE_URLS } from './official-addresses.ts';
import type { ProviderName } from './provider-names.ts';

/** Why a text is no address that a provider may be asked at. */
export type BaseUrlFault = 'NOT_A_BASE_URL' | 'FORBIDDEN_HOST' | 'ORIGIN_NOT_ALLOWED' | 'NOT_HTTPS';

export interface BaseUrl {
  /** Without a final slash. */
  url: string;
  origin: string;
}

const MOST_LETTERS = 2_048;

/**
 * A base URL at which this provider may be asked, with its key: its official origin or one that the operator listed,
 * over https except to a listed loopback address, and never a link-local address or a metadata service, listed or not.
 * Whatever is spelled in a way that two readers could understand differently is none.
 */
export function readBaseUrl(
  text: string,
  { provider, allowedOrigins }: { provider: ProviderName; allowedOrigins: readonly string[] },
): BaseUrl | { fault: BaseUrlFault } {
  const url = plainUrl(text);
  if (url === null) return { fault: 'NOT_A_BASE_URL' };
  const kind = addressKind(url.hostname);
  if (kind === 'forbidden' || isMetadataName(url.hostname)) return { fault: 'FORBIDDEN_HOST' };
  const isListed = allowedOrigins.includes(url.origin);
  const official = OFFICIAL_BASE_URLS[provider];
  if (!isListed && (official === null || new URL(official).origin !== url.origin)) {
    return { fault: 'ORIGIN_NOT_ALLOWED' };
  }
  const isLoopback = kind === 'loopback' || url.hostname === 'localhost';
  if (url.protocol !== 'https:' && !(isListed && isLoopback)) return { fault: 'NOT_HTTPS' };
  return { url: url.href.replace(/\/+$/, ''), origin: url.origin };
}

/** Printable ASCII, a host spelled as every reader understands it, no credentials, query or fragment. */
function plainUrl(text: string): URL | null {
  if (text.length > MOST_LETTERS || !/^https?:\/\/[^/?#@%\\\s]+(\/[^?#@%\\\s]*)?$/i.test(text)) return null;
  if (!/^[\x21-\x7e]+$/.test(text)) return null;
  const url = URL.parse(text);
  if (url === null || url.port === '0' || url.hostname.endsWith('.')) return null;
  // 2130706433 and 0x7f.1 are 127.0.0.1 to some readers: an address is to be spelled as one.
  const host = /^https?:\/\/([^/]+)/i.exec(text)?.[1]?.toLowerCase() ?? '';
  const named = host.startsWith('[') ? host.replace(/\].*$/, ']') : host.replace(/:\d*$/, '');
  return url.hostname === named || named.startsWith('[') ? url : null;
}

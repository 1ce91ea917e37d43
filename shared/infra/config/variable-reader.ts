import { webhookSecretFault } from '#infra/channels/keys.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import { type PlainName, plainValues, type ValueOf } from './plain-values.ts';
import { isBaseUrl, isWebhookUrl, partsOf } from './text-forms.ts';
import { type Variable, WELL_KNOWN } from './variable.ts';
import { type NamesOf, VARIABLES, type VariableName } from './variables.ts';

/** A token or needed secret that is not empty. `owner`: the variable whose callers it admits; `name` may list its earlier values. */
interface SecretRead {
  name: VariableName;
  owner: VariableName;
  value: string;
}

/** Reads variables one by one and collects all faults instead of stopping at the first. */
export interface VariableReader {
  /** One sentence per faulty variable. Complete once every variable has been read. */
  faults: string[];
  /** Every token and needed secret that was read, earlier values included. A variable that was read twice is in the list twice. */
  secretsRead: SecretRead[];
  /** The variables whose values each token accepts: its own, then those that replace it if it is not set. */
  chains: Map<VariableName, readonly VariableName[]>;
  /** Variables that hold a secret of this repository. */
  wellKnown: Set<VariableName>;
  /** Variables that hold another secret which production would refuse. */
  guessable: Set<VariableName>;
  /** Variables whose URLs calls go to over plain http. */
  plainHttp: Set<VariableName>;
  /** True if this process reads the variable. Every other variable is unset for it, without a default. */
  reads(name: VariableName): boolean;
  isSet(name: VariableName): boolean;
  /** Returns the value of a variable that is neither a secret nor an address. */
  value<Name extends PlainName>(name: Name): ValueOf<Name>;
  /**
   * Returns the accepted values of the first of these tokens that is set: its own, then its earlier ones and those of the tokens that it
   * replaces. Only the first value is sent. If it is empty, there is no token, and later names are ignored.
   */
  tokens(...names: NamesOf<'token'>[]): readonly [string, ...string[]] | undefined;
  /** Returns the key of a provider. The provider decides its length, and two variables may have the same one. */
  key(name: NamesOf<'key'>): string | undefined;
  /** Returns the empty string if the secret is not set. If it is `needed`, a missing or weak secret is a fault; otherwise it is not checked. */
  secret(name: NamesOf<'secret'>, needed: boolean): string;
  secrets(name: NamesOf<'secrets'>, needed: boolean): string[];
  neighbour(name: NamesOf<'neighbour'>): string | null;
  webhook(name: NamesOf<'webhook'>): string | null;
  webhookSecret(name: NamesOf<'webhook-secret'>): string | undefined;
  origins(name: NamesOf<'origins'>): string[];
}

/** Opens a reader. A faulty variable is returned as a harmless value of its type, because the caller throws on `faults` before it uses any. */
export function variableReader(
  env: NodeJS.ProcessEnv,
  production: boolean,
  reads: VariableReader['reads'],
): VariableReader {
  const faults: string[] = [];
  const secretsRead: SecretRead[] = [];
  const chains = new Map<VariableName, readonly VariableName[]>();
  const plainHttp = new Set<VariableName>();
  const wellKnown = new Set<VariableName>();
  const guessable = new Set<VariableName>();
  const read = (name: VariableName): string | null =>
    reads(name) ? (env[name] ?? defaultOf(VARIABLES[name], production)) : null;
  const refuse = (name: VariableName, wanted: string): void => {
    faults.push(`${name}: ${given(env[name], isSecret(VARIABLES[name]))}, wanted ${wanted}`);
  };

  const note = (name: VariableName, value: string, faultOf: typeof tokenFault, owner = name): void => {
    secretsRead.push({ name, owner, value });
    if (WELL_KNOWN.has(value)) wellKnown.add(name);
    else if (faultOf(value, true) !== undefined) guessable.add(name);
  };
  const token = (name: NamesOf<'token'>): string | undefined => {
    const value = read(name);
    if (value === null || value === '') return undefined;
    note(name, value, tokenFault);
    const wanted = tokenFault(value, production);
    if (wanted !== undefined) refuse(name, wanted);
    return value;
  };
  const earlier = (name: NamesOf<'tokens'>, owner: NamesOf<'token'>): string[] => {
    const values = partsOf(read(name));
    for (const value of values) note(name, value, tokenFault, owner);
    const wanted = values.map((value) => tokenFault(value, production)).find(Boolean);
    if (wanted !== undefined) refuse(name, `${wanted}, each`);
    return values;
  };
  return {
    faults,
    secretsRead,
    chains,
    wellKnown,
    guessable,
    plainHttp,
    reads,
    isSet: (name) => env[name] !== undefined,
    value: plainValues({ read, reads, refuse }),
    tokens(...names) {
      // All are read, because a fault in a variable that is not used is a fault as well.
      const all = names.map((name) => ({ name, value: token(name), earlier: earlier(`${name}_PREVIOUS`, name) }));
      for (const [place, name] of names.entries()) chains.set(name, names.slice(place));
      const used = all.findIndex(({ name }) => env[name] !== undefined);
      const considered = used === -1 ? all : all.slice(0, used + 1);
      const value = considered.at(-1)?.value;
      if (value !== undefined) return [value, ...considered.flatMap((one) => one.earlier)];
      for (const one of considered) {
        if (one.earlier.length > 0) refuse(`${one.name}_PREVIOUS`, `a current token in ${one.name} beside it`);
      }
      return undefined;
    },
    key(name) {
      const value = read(name);
      if (value === null || value === '') return undefined;
      const wanted = keyFault(value, production);
      if (wanted !== undefined) refuse(name, wanted);
      return value;
    },
    secret(name, needed) {
      const value = read(name) ?? '';
      const wanted = needed ? secretFault(value, production) : undefined;
      if (wanted !== undefined) refuse(name, wanted);
      if (needed && value !== '') note(name, value, secretFault);
      return value;
    },
    secrets(name, needed) {
      const values = partsOf(read(name));
      const wanted = needed ? values.map((value) => secretFault(value, production)).find(Boolean) : undefined;
      if (wanted !== undefined) refuse(name, `${wanted}, each`);
      if (needed) for (const value of values) note(name, value, secretFault, 'AUTH_JWT_SECRET');
      return values;
    },
    neighbour(name) {
      const value = read(name);
      if (value === null || value === '') return null;
      if (!isBaseUrl(value)) refuse(name, 'an http or https URL without credentials, query or fragment');
      return value.replace(/\/+$/, '');
    },
    origins(name) {
      const values = partsOf(read(name));
      if (!values.every((value) => URL.parse(value)?.origin === value)) {
        refuse(name, 'origins such as https://models.example:8443, comma-separated');
      }
      return values;
    },
    webhook(name) {
      const value = read(name);
      if (value === null || value === '') return null;
      if (!isWebhookUrl(value))
        refuse(name, 'an https URL (http to a loopback address) without credentials or fragment');
      return value;
    },
    webhookSecret(name) {
      const value = read(name);
      if (value === null || value === '') return undefined;
      const wanted = webhookSecretFault(value, production);
      if (wanted !== undefined) refuse(name, wanted);
      return value;
    },
  };
}

/** Returns the value of an unset variable as text, or null if it has no default. */
export function defaultOf(variable: Variable, production: boolean): string | null {
  const value = production && 'productionDefault' in variable ? (variable.productionDefault ?? null) : variable.default;
  return value === null ? null : String(value);
}

/** Returns true if a value must never be printed. A faulty URL of a neighbour may contain a password. */
export function isSecret(variable: Variable): boolean {
  return [
    'token',
    'tokens',
    'key',
    'secret',
    'secrets',
    'mongodb',
    'redis',
    'neighbour',
    'webhook',
    'webhook-secret',
  ].includes(variable.kind);
}

function given(value: string | undefined, secret: boolean): string {
  if (value === undefined) return 'not set';
  if (value === '') return 'empty';
  return secret ? 'set to a value not shown here' : `set to ${JSON.stringify(beginningOf(value, 100))}`;
}

// Rules of single secrets. None of these functions quotes a secret.

/** As many characters as 18 random bytes have in base64. */
const MIN_TOKEN_CHARACTERS = 24;

/** Returns a description of the wanted key, or undefined if the key is valid. */
function keyFault(key: string, production: boolean): string | undefined {
  // HTTP trims header values, so a key with white space at its end (a line break) would never match.
  if (!/^[!-~]([ -~]*[!-~])?$/.test(key)) return 'printable ASCII without white space at either end';
  return production && WELL_KNOWN.has(key) ? 'a value of its own, not the development default' : undefined;
}

/** Returns a description of the wanted token, or undefined if the token is valid. */
function tokenFault(token: string, production: boolean): string | undefined {
  const fault = keyFault(token, production);
  if (fault !== undefined || !production) return fault;
  return token.length < MIN_TOKEN_CHARACTERS ? `at least ${MIN_TOKEN_CHARACTERS} characters` : patternIn(token);
}

/** Fewest different characters of a secret. A random one has more. */
const MIN_DIFFERENT = 10;

/**
 * Texts that stand for a secret in examples: some words at any place, and texts of nothing but
 * other words and digits.
 */
const PLACEHOLDER =
  /change[-_. ]?me|replace[-_. ]?me|placeholder|example|^(?=.*[a-z])(?:secret|token|password|key|my|your|default|[^a-z])+$/i;

/**
 * Returns a description of the wanted secret if this one is a pattern or a placeholder, which can
 * be guessed at any length.
 */
function patternIn(secret: string): string | undefined {
  if (new Set(secret).size < MIN_DIFFERENT) return `at least ${MIN_DIFFERENT} different characters`;
  return PLACEHOLDER.test(secret) ? 'a random value, not a placeholder' : undefined;
}

/** HS256 requires a key as long as its hash (RFC 7518, 3.2), and a derived key is no stronger than its secret. */
const MIN_SECRET_BYTES = 32;

/** Returns a description of the wanted secret, or undefined if the secret is valid. */
function secretFault(secret: string, production: boolean): string | undefined {
  // A comma is refused because this secret will later be in the comma-separated list of earlier secrets.
  if (!/^[!-~]([ -~]*[!-~])?$/.test(secret) || secret.includes(',')) {
    const wanted = 'printable ASCII without a comma and without white space at either end';
    return production ? `at least ${MIN_SECRET_BYTES} bytes of ${wanted}` : wanted;
  }
  if (!production) return undefined;
  if (WELL_KNOWN.has(secret)) return 'a value of its own, not the development default';
  return Buffer.byteLength(secret) < MIN_SECRET_BYTES ? `at least ${MIN_SECRET_BYTES} bytes` : patternIn(secret);
}

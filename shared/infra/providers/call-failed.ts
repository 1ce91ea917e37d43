/**
 * A call that brought no answer. `network`: refused, reset, cut, unresolved. `timeout`: ours ran out. `oversize`: the
 * answer grew over our cap. `address`: the name led where no provider may be asked. `request`: it could not even be sent.
 */
export class CallFailed extends Error {
  readonly kind: 'network' | 'timeout' | 'oversize' | 'address' | 'request';
  /** null = it broke before the head of an answer. */
  readonly status: number | null;

  constructor(kind: CallFailed['kind'], options: { status?: number | null; cause?: unknown } = {}) {
    super(`no answer: ${kind}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CallFailed';
    this.kind = kind;
    this.status = options.status ?? null;
  }
}

/**
 * What keeps a free map (event metadata) from being kept as JSON text and given back unchanged, or undefined: an
 * infinity (`1e400`) would come back as null. The caller has bounded the depth (64) and the size of the whole body.
 */
export function freeJsonFault(value: unknown, maxBytes: number | undefined): string | undefined {
  if (holdsInfinity(value)) return 'must hold finite numbers only';
  if (maxBytes === undefined) return undefined;
  return Buffer.byteLength(JSON.stringify(value)) > maxBytes
    ? `must have at most ${maxBytes} bytes of JSON`
    : undefined;
}

function holdsInfinity(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsInfinity);
}

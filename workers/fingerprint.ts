/**
 * What faults of one cause share: the error's name and its message without ids, numbers and quoted values. Dead
 * letters are grouped by it ("fix once, replay 312").
 */
export function fingerprintOf(error: Error): string {
  const shape = error.message
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>')
    .replace(/"[^"]*"|'[^']*'/g, '<value>')
    .replace(/\d+(\.\d+)?/g, '<n>')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 120);
  return `${error.name}: ${shape}`;
}

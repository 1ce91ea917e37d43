import type { Fields, Log } from '#infra/log/log.ts';

export interface CapturedLog extends Log {
  lines: { level: string; fields: Fields; message: string }[];
}

/** Returns an empty log. Its children write into the same list. */
export function captureLog(): CapturedLog {
  const lines: CapturedLog['lines'] = [];
  const at = (level: string) => (fields: Fields, message: string) => void lines.push({ level, fields, message });
  const log: CapturedLog = {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    fatal: at('fatal'),
    child: () => log,
  };
  return log;
}

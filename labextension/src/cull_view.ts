import { TranslationBundle } from '@jupyterlab/translation';

import { IGpuShareModel } from './model';
import { CullWarning } from './wire';

/** How long one press keeps what is about to end. */
export const KEEP_S = 3600;

/** What is about to end, what ends first first; nothing while nobody knows. */
export function warningsOf({ contact, snapshot }: IGpuShareModel): readonly CullWarning[] {
  const warnings = contact === 'live' ? (snapshot?.culling?.warnings ?? []) : [];
  return [...warnings].sort((one, other) => one.at - other.at);
}

/** What a warning is about; the next warning of the same is told in its place. */
export function topicOf({ what, kernel_id: id }: CullWarning): string {
  return `${what} ${id ?? ''}`;
}

/**
 * What is left as a person is told it now and then: whole minutes, and near the end a round number of seconds. It
 * changes seldom, so that nobody has to listen to a clock.
 */
export function roughlyLeft(seconds: number, trans: TranslationBundle): string {
  if (seconds > 60) {
    return trans._n('%1 minute left.', '%1 minutes left.', Math.floor(seconds / 60));
  }
  const marks = MARKS_S.filter(mark => seconds <= mark);
  const mark = marks[marks.length - 1];
  return mark === undefined ? '' : trans.__('Less than %1 seconds left.', mark);
}

const MARKS_S = [60, 30, 10];

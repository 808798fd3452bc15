import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { duration } from './format';
import { ILeaving } from './lease_view';
import { IStateView, StateShape } from './state';

/** One sentence on what is happening to the share, with a shape and a colour that say the same. */
export function StateBox(props: { state: IStateView; trans: TranslationBundle }): React.JSX.Element {
  const { state, trans } = props;
  return (
    <>
      <div
        className="jp-gpushare-StateBox"
        data-tone={state.tone}
        data-state={state.code}
        data-testid="gpushare-state"
        title={state.detail || undefined}
      >
        <StateIcon shape={state.shape} />
        <span>
          <b>{unbroken(state.lead)}</b>
          <Rest state={state} />
          {state.facts.length > 0 && (
            <span className="jp-gpushare-StateBox-facts" data-testid="gpushare-lease-facts">
              {state.facts.join(' · ')}
            </span>
          )}
          {state.leaving && <Leaving leaving={state.leaving} trans={trans} />}
        </span>
      </div>
      <Announcement state={state} trans={trans} />
    </>
  );
}

/** What follows the opening, with the countdown in bold. */
function Rest({ state: { rest, figure } }: { state: IStateView }): React.JSX.Element {
  const place = figure === '' ? -1 : rest.indexOf(figure);
  if (place < 0) {
    return <>{unbroken(rest)}</>;
  }
  return (
    <>
      {unbroken(rest.slice(0, place))}
      <b>{figure}</b>
      {unbroken(rest.slice(place + figure.length))}
    </>
  );
}

/** How long training still has to save its work and to leave. */
function Leaving(props: { leaving: ILeaving; trans: TranslationBundle }): React.JSX.Element {
  const { leaving, trans } = props;
  const [passed, whole] = [leaving.passedS, leaving.wholeS].map(seconds => duration(seconds, trans));
  return (
    <span
      className="jp-gpushare-Progress"
      role="progressbar"
      aria-label={trans.__('Training is leaving')}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(leaving.part)}
      aria-valuetext={trans.__('%1 of %2', passed ?? '', whole ?? '')}
      data-testid="gpushare-leaving"
    >
      <i style={{ width: `${leaving.part}%` }} />
    </span>
  );
}

/** A number stays on one line with its unit. */
function unbroken(text: string): string {
  return text.replace(/(\d) (?=GB\b|min\b|s\b|%)/g, '$1\u00a0');
}

/** Spoken when the state becomes another one, and near the end of a countdown; other numbers go on in silence. */
function Announcement({ state, trans }: { state: IStateView; trans: TranslationBundle }): React.JSX.Element {
  const spoken = React.useRef({ topic: '', mark: Infinity, text: '' });
  const mark = MARKS_S.find(seconds => state.leftS !== null && state.leftS <= seconds) ?? Infinity;
  const { topic } = state;
  if (spoken.current.topic !== topic) {
    spoken.current = { topic, mark, text: `${state.lead}${state.rest}` };
  } else if (mark < spoken.current.mark) {
    const text = trans.__('Your GPU is handed back in %1 seconds. Nothing is lost.', mark);
    spoken.current = { topic, mark, text };
  }
  return (
    <span className="jp-gpushare-spoken" role="status" aria-live="polite" data-testid="gpushare-announcement">
      {spoken.current.text}
    </span>
  );
}

/** How many seconds before the end of a countdown it is spoken of again, the last first. */
const MARKS_S = [10, 60];

const STROKE = { fill: 'none', stroke: 'currentColor', strokeWidth: 1.8 };

const SHAPES: Record<StateShape, React.JSX.Element> = {
  filled: <circle cx="8" cy="8" r="5" fill="currentColor" />,
  half: (
    <>
      <circle cx="8" cy="8" r="5" {...STROKE} />
      <path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor" />
    </>
  ),
  ring: <circle cx="8" cy="8" r="5" {...STROKE} />,
  turn: <path d="M12.5 6A5 5 0 1 0 13 9M13 3v3.5H9.5" {...STROKE} />,
  check: <path d="M3 8.5 6.5 12 13 4.5" {...STROKE} />,
  clock: (
    <>
      <circle cx="8" cy="8" r="5.6" {...STROKE} strokeWidth="1.5" />
      <path d="M8 4.8V8l2.4 1.6" {...STROKE} strokeWidth="1.5" />
    </>
  ),
  flake: (
    <path
      d="M8 1.5v13M2.4 4.8l11.2 6.4M2.4 11.2l11.2-6.4M6.3 2.6 8 4.2l1.7-1.6M6.3 13.4 8 11.8l1.7 1.6"
      {...STROKE}
      strokeWidth="1.3"
      strokeLinecap="round"
    />
  ),
  queue: <path d="M3 4h10M3 8h7M3 12h4" {...STROKE} strokeLinecap="round" />,
  pause: <path d="M5.5 3.5v9M10.5 3.5v9" {...STROKE} strokeWidth="2.2" />,
  pin: <path d="M4 2.5h8v11l-4-3-4 3z" {...STROKE} strokeWidth="1.5" strokeLinejoin="round" />,
  leave: (
    <path
      d="M7 3H3v10h4M6.5 8H13M10.5 5.5 13 8l-2.5 2.5"
      {...STROKE}
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
    />
  ),
  cross: <path d="M4 4l8 8M12 4l-8 8" {...STROKE} />,
  info: (
    <>
      <circle cx="8" cy="8" r="6" {...STROKE} strokeWidth="1.4" />
      <path d="M8 7.2v4M8 4.6v1.2" {...STROKE} />
    </>
  )
};

export function StateIcon(props: { shape: StateShape }): React.JSX.Element {
  return (
    <svg className="jp-gpushare-StateBox-icon" viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[props.shape]}
    </svg>
  );
}

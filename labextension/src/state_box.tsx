import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IStateView, StateShape } from './state';

/** One sentence on what is happening to the share, with a shape and a colour that say the same. */
export function StateBox(props: { state: IStateView; trans: TranslationBundle }): React.JSX.Element {
  const { state } = props;
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
          {unbroken(state.rest)}
        </span>
      </div>
      <Announcement state={state} />
    </>
  );
}

/** A number stays on one line with its unit. */
function unbroken(text: string): string {
  return text.replace(/(\d) (?=GB\b|%)/g, '$1\u00a0');
}

/** Spoken when the state becomes another one; numbers inside a state go on in silence. */
function Announcement(props: { state: IStateView }): React.JSX.Element {
  const { code, lead, rest } = props.state;
  const spoken = React.useRef({ code: '', text: '' });
  if (spoken.current.code !== code) {
    spoken.current = { code, text: `${lead}${rest}` };
  }
  return (
    <span className="jp-gpushare-spoken" role="status" aria-live="polite" data-testid="gpushare-announcement">
      {spoken.current.text}
    </span>
  );
}

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
  cross: <path d="M4 4l8 8M12 4l-8 8" {...STROKE} />,
  info: (
    <>
      <circle cx="8" cy="8" r="6" {...STROKE} strokeWidth="1.4" />
      <path d="M8 7.2v4M8 4.6v1.2" {...STROKE} />
    </>
  )
};

function StateIcon(props: { shape: StateShape }): React.JSX.Element {
  return (
    <svg className="jp-gpushare-StateBox-icon" viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[props.shape]}
    </svg>
  );
}

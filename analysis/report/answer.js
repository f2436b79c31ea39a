// The answer, above everything else: which task takes most, how sure that is, and what would help.
const showAnswer = ({ answer }) => {
  const { at, make, put } = drawing, MOST = 6;
  const reasons = answer.reasons || [];
  at("answer-reasons").hidden = !reasons.length;
  reasons.forEach((one) => make(at("answer-reasons"), "li", one));
  put(at("answer-title"), answer.headline);
  put(at("answer-certainty"), answer.certainty);
  at("answer-certainty").hidden = !answer.certainty;
  at("answer-help").hidden = !answer.remedies.length;
  answer.remedies.slice(0, MOST).forEach((one) => make(at("answer-remedies"), "li", one.text));
  if (answer.remedies.length > MOST) make(at("answer-remedies"), "li", `and ${answer.remedies.length - MOST} more: tprof summary --json has them all`, "quiet");
};

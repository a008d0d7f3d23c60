from graphalgo.server import refusal

return refusal(GD)

return GD.get("graphalgo.claims")
